"""Files of updates: `.npy`, `.npz`, `.safetensors` and torch checkpoints, also as differences to a base file."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Array
from mixtailor.intake.arrays import restored
from mixtailor.intake.arrival import Arrival
from mixtailor.intake.digests import digest_of, file_digest
from mixtailor.intake.layout import Path as LayerPath
from mixtailor.intake.layout import Structure, each_read
from mixtailor.intake.trees import Leaves
from mixtailor.kernels.space import BFLOAT16
from mixtailor.storage.converted import WHOLE, Converted
from mixtailor.storage.files.folders import files_of, is_model_folder, main_file
from mixtailor.storage.files.formats import SUFFIXES, contents
from mixtailor.storage.files.opened import File, FileArray, Unreadable
from mixtailor.storage.kinds import Kind, Unfit, recast
from mixtailor.storage.layers import Layers
from mixtailor.storage.rows import Rows

__all__ = ["Opened", "open_files", "receive_files"]

_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)


def receive_files(paths: Sequence[Any], base: "str | PathLike[str] | None" = None) -> Arrival:
    """Receive n files.

    Parameters
    ----------
    paths : sequence of path
        `.npy`, `.npz` or `.safetensors` files, or checkpoints of `torch.save`; their formats may differ. The result
        for `.npy` files and saved tensors is an array, for the others a dict of arrays by name, in the order of the
        file; bfloat16 is returned as float32, exactly.
    base : path, optional
        A file of a base model: updates are differences to it, and the result is the base plus the aggregated
        difference. Counters and flags take no part in differences.

    Notes
    -----
    A file that cannot be read is a fault of its worker: it is quarantined and named. Extra memory is a range of all
    updates and one update, whatever the size of the files. Compressed `.npz` members are unpacked again in every pass,
    by one thread. Checksums of uncompressed members are not compared: whoever writes a file also writes those.

    The type of the result is the base's, or else the type that most files have; no single file decides it.
    """
    return open_files(paths, base).arrival


@final
class Opened(NamedTuple):
    """Files that were received, and what a file of the result has to hold."""

    arrival: Arrival
    halves: frozenset[str]  # arrays of bfloat16, which numpy returns as float32; "" is the one without a name
    named: bool  # whether arrays have names


def open_files(paths: Sequence[Any], base: "str | PathLike[str] | None" = None) -> Opened:
    """Receive n files, as `receive_files` does, for somebody who writes the result to a file."""
    rows, faults = each_read(paths, partial(_structure, most_files=_most_files(paths)))
    files: list[list[File]] = [
        list(dict.fromkeys(array.file for array in row.arrays.values())) if row else [] for row in rows
    ]
    if len(faults) == len(paths):
        _refuse_all(paths, faults)
    leaves = Leaves.settled(rows, faults)
    bases = {} if base is None else _base_arrays(base, leaves)
    kinds = {path: _typed(kind, bases.get(path)) for path, kind in leaves.kinds.items()}
    storages = [_rows(leaves, path, bases.get(path)) for path in leaves.paths]
    storage: Rows = storages[0] if len(storages) == 1 else Layers(storages, len(leaves.received) + bool(bases))

    def restore(result: Any, left: tuple[int, ...]) -> Any:
        parts = leaves.parts(result)
        for path, own in bases.items():
            parts[path] = recast(_added(parts[path], own), kinds[path].dtype)
        parts.update(leaves.counted(left, _counted))
        results = {path: restored(kind, parts[path]) for path, kind in kinds.items()}
        return results[()] if () in results else {str(path[0]): result for path, result in results.items()}

    def flatten(reference: Any) -> Any:
        vector = leaves.flatten(_loaded(reference) if _is_path(reference) else reference)
        if not bases:
            return vector
        return vector - np.concatenate([recast(_of_base(own, 0, own.size), _DOUBLE) for own in bases.values()])

    # A digest covers far more bytes than most files have, so that no honest one has more.
    sizes = sorted(sum(file.size for file in files[index]) for index in leaves.received)
    most = (1 << 20) + 64 * sizes[(len(sizes) - 1) // 2]

    def sent(index: int) -> bytes:
        opened = files[index]
        if len(opened) == 1:  # by its path, another file might be found by now
            return opened[0].digest(most)
        if opened:
            return digest_of([(file.name, file.digest(most)) for file in opened])
        path = paths[index]
        if not _is_path(path):
            return digest_of(path)
        main = main_file(Path(os.fspath(path)))
        return file_digest(main, most) if main == Path(path) else digest_of([(main.name, file_digest(main, most))])

    arrival = Arrival(storage, leaves.received, faults, len(paths), restore, flatten, base=bool(bases), sent=sent)
    halves = frozenset(str(path[0]) if path else "" for path, kind in kinds.items() if kind.dtype == BFLOAT16)
    return Opened(arrival, halves, () not in kinds)


def _typed(kind: Kind, base: FileArray | None) -> Kind:
    """The kind of one array of the result: in the base's type, which no worker chooses."""
    if base is None or base.kind.discrete:
        return kind
    return replace(kind, dtype=base.kind.dtype)


def _is_path(item: object) -> bool:
    return isinstance(item, (str, PathLike))


def _most_files(paths: Sequence[Any]) -> int:
    """How many files one update may consist of. They stay open, and one worker's must not use up all that there are."""
    counts = []
    for path in paths:
        try:
            counts.append(len(files_of(path)) if _is_path(path) else 1)
        except (OSError, TypeError, ValueError):  # no file, or an index that says nothing
            counts.append(1)
    return 16 + 4 * sorted(counts)[(len(counts) - 1) // 2]


def _structure(path: Any, most_files: int) -> Structure:
    if not _is_path(path):
        raise Unfit(f"{type(path).__name__} where most are files")
    row = Structure(form=[((), dict)])
    for name, array in contents(path, most_files).items():
        row.kinds[name], row.arrays[name] = array.kind, array
    return row


def _rows(leaves: Leaves, path: LayerPath, base: FileArray | None) -> Converted:
    kind, sources = leaves.kinds[path], leaves.arrays[path]
    if base is None:
        return Converted(sources, kind.dtype)
    # Differences of half precision are kept in float32: rounded to half again, small updates of large weights vanish.
    return Converted([*sources, base], _DOUBLE if kind.dtype == _DOUBLE else _SINGLE)


def _refuse_all(paths: Sequence[Any], faults: Mapping[int, str]) -> None:
    known = (os.fspath(path).lower().endswith(SUFFIXES) or is_model_folder(path) for path in paths if _is_path(path))
    if not any(known):
        first = os.fspath(paths[0])[:80]
        refuse(f"Updates need numbers, or paths of {', '.join(SUFFIXES)} files, and got text: {first!r}.")
    refuse(f"Updates need files that can be read, and none of these {len(paths)} can: row 0 is {faults[0]}.")


def _base_arrays(path: "str | PathLike[str]", leaves: Leaves) -> dict[LayerPath, FileArray]:
    """The base's array for each array of the updates, by the same name; checked for shape and finiteness."""
    name = Path(path).name
    try:
        known = contents(path)
    except Unfit as error:
        raise ValueError(f"The base needs to be a file that can be read, and {name} is {error}.") from None
    found = {}
    for title in leaves.paths:
        kind = leaves.kinds[title]
        shown = f"the array {title[0]!r}" if title else "one array without a name"
        array = known.get(title)
        if array is None:
            refuse(f"The base needs the arrays that the files have, and {name} lacks {shown}.")
        if (array.kind.shape, array.kind.by_columns) != (kind.shape, kind.by_columns):
            refuse(
                f"The base needs {shown} in shape {kind.shape} and in the files' order; {name} has {array.kind.shape}."
            )
        for start in range(0, array.size, WHOLE):
            values = _of_base(array, start, min(start + WHOLE, array.size))
            if not np.isfinite(recast(values, _DOUBLE)).all():
                refuse(f"The base needs finite entries only, and {shown} of {name} holds NaN or infinity.")
        found[title] = array
    return found


def _added(difference: Array, base: FileArray) -> Array:
    """The base plus the difference, in place, range by range."""
    for start in range(0, base.size, WHOLE):
        stop = min(start + WHOLE, base.size)
        difference[start:stop] += recast(_of_base(base, start, stop), difference.dtype)
    return difference


def _of_base(array: FileArray, start: int, stop: int) -> Array:
    """A range of the base; where it can no longer be read, there is nothing to go on with, and no worker to blame."""
    try:
        return array.run(start, stop)
    except Unreadable as error:
        refuse(f"The base needs to be a file that can be read, and is {error}.")


def _counted(array: FileArray) -> Array | None:
    """An array of counters; a file that can no longer be read does not count."""
    try:
        return array.run(0, array.size)
    except Unreadable:
        return None


def _loaded(path: Any) -> Any:
    """A reference from a file."""
    try:
        arrays = contents(path)
        values = {
            name: recast(own.run(0, own.size), _DOUBLE).reshape(
                own.kind.shape, order="F" if own.kind.by_columns else "C"
            )
            for name, own in arrays.items()
        }
    except Unfit as error:
        raise ValueError(f"The reference needs to be a file that can be read and is {error}.") from None
    return values[()] if () in values else {name[0]: array for name, array in values.items()}
