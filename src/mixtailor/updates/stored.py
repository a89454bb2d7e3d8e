"""Rows in files: `.npy`, `.npz`, `.safetensors`, torch checkpoints. Read run by run, so that they may exceed memory."""

import os
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import refuse
from mixtailor.updates import checkpoints
from mixtailor.updates.arrays import Array, Unfit, recast
from mixtailor.updates.base import Call, Faulty
from mixtailor.updates.copied import Copied
from mixtailor.updates.engine import Integers
from mixtailor.updates.files import Broken, Packed, Part
from mixtailor.updates.formats import SUFFIXES, contents
from mixtailor.updates.home import RUN_ENTRIES, Home, run_width, split
from mixtailor.updates.layout import Row, taken_apart
from mixtailor.updates.points import Point
from mixtailor.updates.receive import Arrival
from mixtailor.updates.tree import Leaves, Tree

__all__ = ["Stored", "StoredTree", "receive"]


class _OnDisk(Home):
    """What homes of files share: no matrix of everything, and no trust in a file that changes."""

    in_memory: ClassVar[bool] = False

    def _parts(self) -> list[list[Part]]:
        """The parts of each row."""
        raise NotImplementedError

    def gathered(self, jobs: Sequence[Callable[[], Any]]) -> Any:
        # A compressed file is unpacked from its beginning, so its runs come in order.
        if any(isinstance(part, Packed) for parts in self._parts() for part in parts):
            return np.stack([job() for job in jobs])
        return super().gathered(jobs)

    def evaluate(self, point: Point) -> Any:
        answer = super().evaluate(point)
        files = [parts[0].file if parts else None for parts in self._parts()]
        changed = [self.received[row] for row, file in enumerate(files) if file is not None and file.changed()]
        if changed:
            raise Faulty(changed, "a file that was written to while it was read")
        return answer

    def check_materialise(self, rule: str) -> None:
        refuse(
            f"{rule} needs all updates as one matrix in memory, and these are files. Use a rule of this package, or "
            "load the files yourself."
        )


class Stored(_OnDisk, Copied):
    """n files of one array each, or one array of n files. Extra memory is a run of all rows."""

    rows: list[Part]  # type: ignore[assignment]  # the sources are parts of files here

    def _parts(self) -> list[list[Part]]:
        return [[row] for row in self.rows]

    def runs(self) -> list[tuple[int, int]]:
        return split(self.d, run_width(self.n, RUN_ENTRIES))

    def _run(self, index: int, start: int, stop: int) -> Array:
        try:
            return super()._run(index, start, stop)
        except Broken as error:
            raise Faulty([self.received[index]], str(error)) from None

    def _pick(self, index: int, which: Integers) -> Array:
        try:
            return super()._pick(index, which)
        except Broken as error:
            raise Faulty([self.received[index]], str(error)) from None


class StoredTree(_OnDisk, Tree):
    """n files of several arrays each."""

    def _parts(self) -> list[list[Part]]:
        leaves = [leaf.rows for leaf in self.leaves if isinstance(leaf, Stored)]
        return [[rows[row] for rows in leaves] for row in range(self.n)]


def _is_path(item: object) -> bool:
    return isinstance(item, (str, PathLike))


def _taken_apart(path: Any) -> Row:
    if not _is_path(path):
        raise Unfit(f"{type(path).__name__} where most are files")
    row = Row(form=[((), dict)])
    for name, part in contents(path).items():
        row.kinds[name], row.arrays[name] = part.kind, part
    return row


def receive(paths: Sequence[Any]) -> Arrival:
    """Give a home to n files.

    Parameters
    ----------
    paths : sequence of path
        `.npy`, `.npz` or `.safetensors` files, or checkpoints of `torch.save`, and their formats may differ. The answer
        for `.npy` files and saved tensors is an array, for the others a dict of arrays by name, in the order of the
        file; bfloat16 comes back as float32, exactly.

    Notes
    -----
    A file that cannot be read is a fault of its worker: it is quarantined and named. Extra memory is a run of all rows
    and one update, whatever the files' size. Compressed `.npz` members are unpacked anew in every pass, in one thread.
    Checksums of uncompressed members are not compared: whoever writes a file also writes those.
    """
    # One such file among others is its worker's fault; where most are, torch is what is missing.
    if 2 * sum(str(path).lower().endswith(checkpoints.SUFFIXES) for path in paths) > len(paths):
        checkpoints.needed_torch()
    rows, faults = taken_apart(paths, _taken_apart)
    if len(faults) == len(paths):
        _refuse_all(paths, faults)
    leaves = Leaves.settled(rows, faults)
    kinds, received = leaves.layout.kinds, leaves.received
    homes = [
        Stored([array for _, array in leaves.of(path)], kinds[path].dtype, kinds[path].bits, Call(), received)
        for path in leaves.paths
    ]
    home: Home = homes[0] if len(homes) == 1 else StoredTree(homes, Call(), received)

    def restore(answer: Any, left: Home) -> Any:
        answers = {path: kinds[path].back(part) for path, part in leaves.parts(answer).items()}
        for path in leaves.layout.discrete:
            answers[path] = kinds[path].back(leaves.discrete(path, left.received, _counted))
        return answers[()] if () in answers else {str(path[0]): answers[path] for path in kinds}

    def flatten(reference: Any) -> Any:
        return leaves.flatten(_loaded(reference) if _is_path(reference) else reference)

    return Arrival(home, faults, len(paths), restore, flatten)


def _refuse_all(paths: Sequence[Any], faults: Mapping[int, str]) -> None:
    if not any(os.fspath(path).lower().endswith(SUFFIXES) for path in paths if _is_path(path)):
        first = os.fspath(paths[0])[:80]
        refuse(f"Updates need numbers, or paths of {', '.join(SUFFIXES)} files, and got text: {first!r}.")
    refuse(f"Updates need files that can be read, and none of these {len(paths)} can: row 0 is {faults[0]}.")


def _whole(part: Part) -> Array:
    return part.run(0, part.size)


def _counted(part: Part) -> Array | None:
    """A leaf of counters; a file that breaks off only now has no say in them."""
    try:
        return _whole(part)
    except Broken:
        return None


def _loaded(path: Any) -> Any:
    """A reference from a file."""
    try:
        parts = contents(path)
        values = {
            name: recast(_whole(part), part.bits, np.dtype(np.float64)).reshape(
                part.kind.shape, order="F" if part.kind.by_columns else "C"
            )
            for name, part in parts.items()
        }
    except Unfit as error:
        raise ValueError(f"The reference needs to be a file that can be read and is {error}.") from None
    return values[()] if () in values else {name[0]: array for name, array in values.items()}
