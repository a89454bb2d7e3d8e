"""Torch checkpoints as files of arrays: torch says what they hold and where, and the numbers are read by position.

The pickle in a checkpoint goes through `torch.load(..., weights_only=True)` and nothing else, to the device "meta":
torch makes tensors without data, and knows where in the file each one's bytes are. They are read from there as those
of any other file, so nothing is mapped, and nothing of a tensor's size is in memory.
"""

import re
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from mixtailor._checks import MissingPackageError, refuse
from mixtailor.storage.files.opened import File, FileArray, PlainArray, Unreadable
from mixtailor.storage.kinds import Kind, Unfit

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SUFFIXES", "needed_torch", "state"]

SUFFIXES = (".pt", ".pth", ".bin")

# Before it, a file could run code in spite of weights_only (CVE-2025-32434, CVE-2026-24747).
_SAFE = (2, 10)
_PICKLE = 100 << 20
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_TYPES = {
    "float64": "f8", "float32": "f4", "float16": "f2", "bfloat16": "u2", "bool": "b1",
    "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4",
    "uint64": "u8",
}  # fmt: skip


def needed_torch() -> Any:
    """The package, where it is installed and its `weights_only` is known to be safe."""
    try:
        import torch
    except ImportError:
        raise MissingPackageError("A torch checkpoint", "torch", "torch") from None
    found = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:2])
    if found < _SAFE:
        refuse(
            f"A torch checkpoint needs torch >= {_SAFE[0]}.{_SAFE[1]} and this is {torch.__version__}: before, a file "
            "could run code in spite of weights_only=True. Update torch, or convert the file to .safetensors."
        )
    return torch


def state(file: File, members: dict[int, zipfile.ZipInfo]) -> dict[tuple[object, ...], FileArray]:
    """The tensors of a checkpoint: by name in the order of its state dict, or the one tensor without a name.

    Parameters
    ----------
    file : File
    members : dict
        The members of the archive, all of them uncompressed, by where their first byte is.
    """
    torch = needed_torch()
    names = {member.filename.rpartition("/")[2]: member for member in members.values()}
    if "constants.pkl" in names:
        raise Unreadable(f"a TorchScript program, which is never run; save the state dict ({file.name})")
    if "data.pkl" not in names or names["data.pkl"].file_size > _PICKLE:
        raise Unreadable(f"no checkpoint of torch.save ({file.name})")
    found = _state(_loaded(torch, file))
    if isinstance(found, torch.Tensor):
        return {(): _part(torch, file, members, found, "the tensor")}
    parts: dict[tuple[object, ...], FileArray] = {}
    for name, value in found.items():
        _check_entry(torch, name, value)
        parts[name,] = _part(torch, file, members, value, repr(name[:80]))
    _check_apart(parts)
    return parts


def _loaded(torch: Any, file: File) -> Any:
    try:
        return torch.load(file.seekable(), map_location="meta", weights_only=True)
    except Exception as error:  # a hostile file may fail in any way, and torch documents none of them
        text = "".join(letter if letter.isprintable() else " " for letter in str(error))
    named = re.search(r"GLOBAL (\S{1,80})", text)
    if named:
        raise Unreadable(f"it holds Python objects ({named[1]}), which are never loaded ({file.name})")
    if "Quantized" in text:
        raise Unfit("of quantised tensors where real numbers are needed; save them dequantised")
    reason = text.rpartition("WeightsUnpickler error:")[2].partition("Check the documentation")[0]
    raise Unreadable(f"torch cannot read it ({file.name}): {' '.join(reason.split())[:100]}")


def _state(found: Any) -> Any:
    """The state dict of what was saved, which may lie beside the epoch, the optimizer and the like."""
    if not isinstance(found, dict):
        if hasattr(found, "untyped_storage"):
            return found
        raise Unfit(f"a checkpoint of {type(found).__name__} where a state dict is needed")
    inner = [key for key in _WRAPPERS if isinstance(found.get(key), dict)]
    if len(inner) > 1:
        raise Unfit(f"a checkpoint with {inner[0]!r} and {inner[1]!r}; save the one state dict that is meant by itself")
    return found[inner[0]] if inner else found


def _check_entry(torch: Any, name: object, value: object) -> None:
    if not isinstance(name, str):
        raise Unfit(f"a state dict with the name {str(name)[:80]!r}, which is no text")
    if isinstance(value, dict):
        raise Unfit(f"a checkpoint with a mapping {name[:80]!r} in it; save the state dict that is meant by itself")
    if not isinstance(value, torch.Tensor):
        raise Unfit(f"a state dict whose entry {name[:80]!r} is no tensor but {type(value).__name__}; leave it out")


def _part(torch: Any, file: File, members: dict[int, zipfile.ZipInfo], tensor: "Tensor", name: str) -> FileArray:
    """Where a tensor's numbers lie in the file."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        raise Unfit(f"of a sparse, nested or quantised tensor where a dense one is needed ({name})")
    own = str(tensor.dtype).removeprefix("torch.")
    if own not in _TYPES:
        raise Unfit(f"of type {own} where real numbers are needed ({name})")
    by_columns = not tensor.is_contiguous()
    if tensor.is_neg() or (by_columns and not tensor.permute(*reversed(range(tensor.ndim))).is_contiguous()):
        raise Unfit(f"of a tensor that is a view of another order ({name}); save it with .contiguous()")
    dtype = np.dtype(_TYPES[own])
    kind = Kind("stored", dtype, tuple(tensor.shape), own == "bfloat16", by_columns=by_columns)
    start = getattr(tensor.untyped_storage(), "_checkpoint_offset", None)
    skipped = tensor.storage_offset() * dtype.itemsize
    if start not in members or skipped + kind.size * dtype.itemsize > members[start].file_size:
        raise Unreadable(f"{name} has not the bytes that its shape needs ({file.name})")
    return PlainArray(file, kind, dtype, start + skipped)


def _check_apart(parts: dict[tuple[object, ...], FileArray]) -> None:
    """Refuse tied weights: they would count twice, and the answer could break the tie."""
    end, before = 0, ""
    for name, part in sorted(parts.items(), key=lambda item: item[1].offset):
        if part.size and part.offset < end:
            raise Unfit(f"a state dict whose {before!r} and {str(name[0])[:80]!r} share memory; save one of the two")
        if part.size:
            end, before = part.offset + part.size * part.dtype.itemsize, str(name[0])[:80]
