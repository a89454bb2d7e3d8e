"""Results to files, atomically."""

import json
import os
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from mixtailor._checks import refuse
from mixtailor._files import atomic_write
from mixtailor.kernels.space import to_bfloat16
from mixtailor.storage.files import checkpoints
from mixtailor.storage.files.folders import files_of
from mixtailor.storage.files.formats import SUFFIXES
from mixtailor.storage.kinds import Unfit

__all__ = ["check_names", "check_out", "write"]

Array = np.ndarray[Any, np.dtype[Any]]
_SAFETENSORS = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL",
    "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64",
}  # fmt: skip


def check_out(out: Path, inputs: Collection[Path]) -> None:
    """Before anything is computed, refuse an output that could not be written."""
    if out.suffix.lower() not in SUFFIXES:
        refuse(f"The result needs a name that ends in {', '.join(SUFFIXES)} and got {out.name!r}.")
    if not out.parent.is_dir():
        refuse(f"The result needs a folder that exists, and {str(out.parent)!r} does not. Make it first.")
    if out.is_dir():
        refuse(f"The result needs the name of a file, and {str(out)!r} is a folder.")
    if any(_same(part, out) for path in inputs for part in _parts(path)):
        refuse(f"The result would replace {out.name!r}, which is one of the files it is made of. Give another name.")
    if out.suffix.lower() in checkpoints.SUFFIXES:
        checkpoints.needed_torch()


def _parts(path: Path) -> list[Path]:
    """The files that an input consists of: a folder of Hugging Face has several."""
    try:
        return [path, *files_of(path)]
    except Unfit:
        return [path]


def _same(path: Path, out: Path) -> bool:
    """Whether two paths lead to the same file, links included; False if one of them cannot be read."""
    try:
        return path.samefile(out)
    except (OSError, ValueError):
        return False


def check_names(out: Path, *, named: bool) -> None:
    """Refuse a format that cannot hold a result of arrays with names, or of one array without."""
    suffix = out.suffix.lower()
    if not named and suffix in (".npz", ".safetensors"):
        refuse(f"The result for these files is one array without a name: write it to .npy, not to {out.suffix}.")
    if named and suffix == ".npy":
        refuse("The result for files of named arrays needs names: write it to .npz or .safetensors, not to .npy.")


def write(out: Path, result: Any, halves: Collection[str] = (), before: Callable[[], None] | None = None) -> None:
    """Write a result; `halves` names the arrays that are bfloat16, which numpy holds as float32 ("" has no name).

    `before` is called when all of it is on the disk and nobody sees it yet: where that fails, there is no result.
    """
    suffix = out.suffix.lower()
    with atomic_write(out) as file:
        if suffix == ".npy":
            np.lib.format.write_array(_Plain(file), np.asarray(result), allow_pickle=False)
        elif suffix == ".npz":
            _npz(file, result)
        elif suffix == ".safetensors":
            _safetensors(file, result, halves)
        else:
            _checkpoint(file, result, halves)
        if before is not None:
            file.flush()
            os.fsync(file.fileno())
            before()


class _Plain:
    """A file that numpy writes to by its `write`. Where numpy writes by itself, it does not say that a disk is full."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write


def _npz(file: IO[bytes], result: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in result.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _safetensors(file: IO[bytes], result: Mapping[str, Array], halves: Collection[str]) -> None:
    """Eight bytes of length, the header, the arrays; written here because the library copies every array first."""
    # The widest types first, so that every array is aligned.
    widths = {name: 2 if name in halves else array.dtype.itemsize for name, array in result.items()}
    order = sorted(result, key=lambda name: -widths[name])
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name in order:
        array = result[name]
        size = array.size * widths[name]
        kind = "BF16" if name in halves else _SAFETENSORS[array.dtype.name]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        array = np.ascontiguousarray(result[name])
        values = to_bfloat16(array.reshape(-1)) if name in halves else array
        file.write(values.astype(values.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data)


def _checkpoint(file: IO[bytes], result: Any, halves: Collection[str]) -> None:
    torch = checkpoints.needed_torch()

    def tensor(name: str, array: Array) -> Any:
        values = np.asarray(array, order="C")
        if name not in halves:
            return torch.from_numpy(values)
        return torch.from_numpy(to_bfloat16(values.reshape(-1))).view(torch.bfloat16).reshape(array.shape)

    whole = {name: tensor(name, array) for name, array in result.items()} if isinstance(result, Mapping) else None
    try:
        torch.save(tensor("", np.asarray(result)) if whole is None else whole, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):  # torch speaks of positions where the disk is full
            raise error.__context__ from None
        raise
