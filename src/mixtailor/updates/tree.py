"""Rows in the layers of a model: lists, tuples and dicts of arrays, nested at will, never stacked."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mixtailor._checks import refuse
from mixtailor.updates.arrays import discrete_answer, in_memory
from mixtailor.updates.base import Call
from mixtailor.updates.copied import flat_home
from mixtailor.updates.dense import Flat
from mixtailor.updates.engine import Block, CpuEngine, Floats, Integers, Pieces
from mixtailor.updates.home import RUN_ENTRIES, VIEW_ENTRIES, Home, run_width, split
from mixtailor.updates.layout import Layout, Path, Row, leaves_of, named, rebuilt, settle, taken_apart

if TYPE_CHECKING:
    from mixtailor.updates.receive import Arrival

__all__ = ["Leaves", "Sections", "Tree", "receive"]


class Sections:
    """Which leaves a run of coordinates covers.

    Parameters
    ----------
    widths : sequence of int
        The coordinates of each leaf.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self.offsets = np.concatenate([[0], np.cumsum(widths)]).astype(int)
        self.d = int(self.offsets[-1])

    def pieces(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """(leaf, start, stop) of the leaves that a run covers, in their own coordinates."""
        pieces = []
        index = int(np.searchsorted(self.offsets, start, side="right")) - 1
        while index < len(self.offsets) - 1 and (lo := int(self.offsets[index])) < stop:
            hi = int(self.offsets[index + 1])
            if hi > lo:
                pieces.append((index, max(start, lo) - lo, min(stop, hi) - lo))
            index += 1
        return pieces

    def runs(self, small: int, large: int) -> list[tuple[int, int]]:
        """Runs inside a large leaf, of width `large`, or over several small ones, of at most about `small`."""
        runs: list[tuple[int, int]] = []
        start = 0  # of the small leaves collected so far
        for lo, hi in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True):
            alone = hi - lo >= max(small // 4, 1)
            if (alone or hi - start > small) and lo > start:
                runs.append((start, lo))
                start = lo
            if alone:
                runs.extend(split(hi, large, lo))
                start = hi
        if self.d > start or not runs:
            runs.append((start, self.d))
        return runs

    def owners(self, which: Integers) -> list[tuple[int, Any, Integers]]:
        """(leaf, mask, coordinates there) of single coordinates."""
        owner = np.searchsorted(self.offsets, which, side="right") - 1
        return [(int(leaf), owner == leaf, which[owner == leaf] - self.offsets[leaf]) for leaf in np.unique(owner)]


class Tree(Home):
    """n rows, each of several leaves, every leaf read in place.

    Parameters
    ----------
    leaves : sequence of Flat
        One home a leaf, in the order of the coordinates.
    """

    def __init__(self, leaves: Sequence[Flat], call: Call, received: Sequence[int]) -> None:
        self.leaves = list(leaves)
        self.sections = Sections([leaf.d for leaf in leaves])
        super().__init__(len(received), self.sections.d, CpuEngine(), call, received)
        self.tile = np.dtype(np.float64 if any(leaf.tile == np.float64 for leaf in leaves) else np.float32)

    def runs(self) -> list[tuple[int, int]]:
        return self.sections.runs(run_width(self.n, VIEW_ENTRIES), run_width(self.n, RUN_ENTRIES))

    def view_runs(self, n: int) -> list[tuple[int, int]]:
        width = run_width(max(n, self.n), VIEW_ENTRIES)
        return self.sections.runs(width, width)

    def block(self, start: int, stop: int) -> Block:
        pieces = self.sections.pieces(start, stop)
        if len(pieces) == 1:
            leaf, lo, hi = pieces[0]
            return self.leaves[leaf].block(lo, hi)
        out = np.empty((self.n, stop - start), self.tile)
        engine = CpuEngine()
        at = 0
        for leaf, lo, hi in pieces:
            engine.gather(self.leaves[leaf].block(lo, hi), out[:, at : at + hi - lo])
            at += hi - lo
        return Block.of(out)

    def coordinates(self, which: Integers) -> Floats:
        out = np.empty((self.n, len(which)), self.tile)
        for leaf, here, inside in self.sections.owners(which):
            out[:, here] = self.leaves[leaf].coordinates(inside)
        return out

    def only(self, rows: Sequence[int]) -> "Tree":
        kept = [leaf.only(rows) for leaf in self.leaves]
        return type(self)(kept, self.call, [self.received[row] for row in rows])

    @property
    def largest(self) -> float:
        return min(leaf.largest for leaf in self.leaves)

    def new(self) -> Any:
        return [leaf.new() for leaf in self.leaves]

    def slice(self, answer: Any, start: int, stop: int) -> Any:
        pieces = [answer[leaf][lo:hi] for leaf, lo, hi in self.sections.pieces(start, stop)]
        return pieces[0] if len(pieces) == 1 else Pieces(pieces)

    def copy_row(self, row: int, answer: Any) -> None:
        for leaf, part in zip(self.leaves, answer, strict=True):
            leaf.copy_row(row, part)

    def assemble(self, matrices: list[Any]) -> Any:
        return np.concatenate([matrix.astype(self.tile, copy=False) for matrix in matrices], axis=1)

    def given_values(self, vector: Any, start: int, stop: int) -> Any:
        return vector[start:stop].astype(np.float64, copy=False)

    def given_coordinates(self, vector: Any, which: Integers) -> Floats:
        return np.asarray(vector[which], np.float64)

    def row_bytes(self, row: int) -> Iterable[Any]:
        for leaf in self.leaves:
            yield from leaf.row_bytes(row)

    def _zero_is_exact(self, p: float) -> bool:
        return all(leaf._zero_is_exact(p) for leaf in self.leaves)


@dataclass
class Leaves:
    """Rows of one structure, and how an answer for their coordinates becomes an update again.

    Attributes
    ----------
    layout : Layout
    rows : list of Row or None
        None for those of another structure.
    paths : list of Path
        The leaves that coordinates are counted over.
    """

    layout: Layout
    rows: list[Row | None]
    paths: list[Path]

    @classmethod
    def settled(cls, rows: list[Row | None], faults: dict[int, str]) -> "Leaves":
        """Rows and the structure that most of them share; the faults of the others are noted."""
        layout = settle(rows, faults)
        if list(layout.kinds) == [()] and layout.kinds[()].discrete:
            # One array of whole numbers is an update of whole numbers, not a counter.
            layout = Layout({(): layout.kinds[()].as_floats()}, layout.template)
        return cls(layout, rows, layout.continuous)

    @property
    def received(self) -> list[int]:
        return [index for index, row in enumerate(self.rows) if row is not None]

    def of(self, path: Path) -> list[tuple[Row, Any]]:
        """The sound rows and their arrays at a path."""
        return [(row, row.arrays[path]) for row in self.rows if row is not None]

    def parts(self, answer: Any) -> dict[Path, Any]:
        """The flat answer of each leaf."""
        return dict(zip(self.paths, [answer] if len(self.paths) == 1 else answer, strict=True))

    def discrete(self, path: Path, received: Sequence[int], whole: Callable[[Any], Any]) -> Any:
        """The flat answer of a leaf of counters or flags, from the rows that are left."""
        rows = [whole(row.arrays[path]) for index in received if (row := self.rows[index]) is not None]
        return discrete_answer(self.layout.kinds[path], [row for row in rows if row is not None])

    def flatten(self, reference: Any) -> Any:
        """An update from outside as one flat vector."""
        if self.paths == [()]:
            return self.layout.kinds[()].flatten(reference)
        try:
            arrays = leaves_of(reference).arrays
        except TypeError as error:
            raise TypeError(f"The reference needs the layers of one update and is {error}.") from None
        missing = [path for path in self.paths if path not in arrays]
        if missing:
            refuse(f"The reference needs the layers of one update and is without {named(missing[0])}.")
        return np.concatenate([np.empty(0), *(self.layout.kinds[path].flatten(arrays[path]) for path in self.paths)])


def receive(updates: Sequence[Any]) -> "Arrival":
    """Give a home to a list of n arrays or trees."""
    from mixtailor.updates.receive import Arrival

    rows, faults = taken_apart(updates, leaves_of)
    leaves = Leaves.settled(rows, faults)
    kinds = leaves.layout.kinds
    if any(kinds[path].library == "torch" and kinds[path].device.type != "cpu" for path in leaves.paths):
        from mixtailor.updates import device

        return device.arrival(updates, leaves, faults)
    received = leaves.received
    homes = [
        flat_home(
            [in_memory(array) for _, array in leaves.of(path)],
            [row.kinds[path].bits for row, _ in leaves.of(path)],
            kinds[path].dtype,
            kinds[path].bits,
            received,
        )
        for path in leaves.paths
    ]
    home: Home = homes[0] if len(homes) == 1 else Tree(homes, Call(), received)

    def restore(answer: Any, left: Home) -> Any:
        answers = {path: kinds[path].back(part) for path, part in leaves.parts(answer).items()}
        for path in leaves.layout.discrete:
            flat = leaves.discrete(path, left.received, lambda array: in_memory(array).reshape(-1))
            answers[path] = kinds[path].back(flat)
        return rebuilt(updates[leaves.layout.template], answers)

    return Arrival(home, faults, len(updates), restore, leaves.flatten)
