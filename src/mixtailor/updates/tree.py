"""Rows in the layers of a model: lists, tuples and dicts of arrays, nested at will, never stacked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mixtailor._checks import plural, refuse
from mixtailor.updates.arrays import Kind, discrete_answer, is_array, is_torch, on_device
from mixtailor.updates.base import Call
from mixtailor.updates.dense import Dense
from mixtailor.updates.engine import Block, CpuEngine, Floats, Integers, Pieces
from mixtailor.updates.home import RUN_ENTRIES, VIEW_ENTRIES, Home, run_width, split

if TYPE_CHECKING:
    from mixtailor.updates.receive import Arrival

__all__ = ["Kind", "Tree", "is_array", "on_device", "receive"]

Path = tuple[object, ...]
_DEPTH = 64


class Tree(Home):
    """n rows, each of several leaves, every leaf read in place.

    Parameters
    ----------
    leaves : sequence of Dense
        One home a leaf, in the order of the coordinates.
    """

    def __init__(self, leaves: Sequence[Dense], call: Call, received: Sequence[int]) -> None:
        self.leaves = list(leaves)
        self.offsets = np.concatenate([[0], np.cumsum([leaf.d for leaf in leaves])]).astype(int)
        super().__init__(len(received), int(self.offsets[-1]), CpuEngine(), call, received)
        wide = any(leaf.dtype == np.float64 for leaf in leaves)
        self._tile = np.dtype(np.float64 if wide else np.float32)

    def runs(self) -> list[tuple[int, int]]:
        return self._runs(RUN_ENTRIES)

    def view_runs(self, n: int) -> list[tuple[int, int]]:
        return self._runs(VIEW_ENTRIES * self.n // max(n, self.n, 1))

    def _runs(self, entries: int) -> list[tuple[int, int]]:
        """Runs inside a large leaf, which are read in place, or over several small ones, which are copied together."""
        copied, in_place = run_width(self.n, min(entries, VIEW_ENTRIES)), run_width(self.n, entries)
        runs: list[tuple[int, int]] = []
        start = 0  # of the small leaves collected so far
        for lo, hi in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True):
            if hi - lo >= copied // 4 or hi - start > copied:
                if lo > start:
                    runs.append((start, lo))
                start = lo
            if hi - lo >= copied // 4:
                runs.extend(split(hi, in_place, lo))
                start = hi
        if self.d > start or not runs:
            runs.append((start, self.d))
        return runs

    def _pieces(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """(leaf, start, stop) of the leaves that a run covers, in their own coordinates."""
        first = int(np.searchsorted(self.offsets, start, side="right")) - 1
        pieces = []
        for index in range(first, len(self.leaves)):
            lo, hi = int(self.offsets[index]), int(self.offsets[index + 1])
            if lo >= stop:
                break
            if hi > lo:
                pieces.append((index, max(start, lo) - lo, min(stop, hi) - lo))
        return pieces

    def block(self, start: int, stop: int) -> Block:
        pieces = self._pieces(start, stop)
        if len(pieces) == 1:
            index, lo, hi = pieces[0]
            return self.leaves[index].block(lo, hi)
        out = np.empty((self.n, stop - start), self._tile)
        at = 0
        for index, lo, hi in pieces:
            self.engine_of_leaf.gather(self.leaves[index].block(lo, hi), out[:, at : at + hi - lo])
            at += hi - lo
        return Block.of(out)

    engine_of_leaf = CpuEngine()

    def coordinates(self, which: Integers) -> Floats:
        out = np.empty((self.n, len(which)), self._tile)
        owner = np.searchsorted(self.offsets, which, side="right") - 1
        for index in np.unique(owner):
            here = owner == index
            out[:, here] = self.leaves[index].coordinates(which[here] - self.offsets[index])
        return out

    def only(self, rows: Sequence[int]) -> "Tree":
        return Tree([leaf.only(rows) for leaf in self.leaves], self.call, [self.received[row] for row in rows])

    def new(self) -> Any:
        return [leaf.new() for leaf in self.leaves]

    def slice(self, answer: Any, start: int, stop: int) -> Any:
        pieces = [answer[index][lo:hi] for index, lo, hi in self._pieces(start, stop)]
        return pieces[0] if len(pieces) == 1 else Pieces(pieces)

    def copy_row(self, row: int, answer: Any) -> None:
        for leaf, part in zip(self.leaves, answer, strict=True):
            leaf.copy_row(row, part)

    def assemble(self, matrices: list[Any]) -> Any:
        return np.concatenate([matrix.astype(self._tile, copy=False) for matrix in matrices], axis=1)

    def given_values(self, vector: Any, start: int, stop: int) -> Any:
        return vector[start:stop].astype(np.float64, copy=False)

    def given_coordinates(self, vector: Any, which: Integers) -> Floats:
        return np.asarray(vector[which], np.float64)

    def row_bytes(self, row: int) -> list[Any]:
        return [part for leaf in self.leaves for part in leaf.row_bytes(row)]

    def _zero_is_exact(self, p: float) -> bool:
        return all(leaf._zero_is_exact(p) for leaf in self.leaves)


@dataclass(frozen=True)
class Layout:
    """The structure that most updates share."""

    template: Any
    kinds: dict[Path, Kind]

    @property
    def continuous(self) -> list[Path]:
        return [path for path, kind in self.kinds.items() if not kind.discrete]

    @property
    def discrete(self) -> list[Path]:
        return [path for path, kind in self.kinds.items() if kind.discrete]


def leaves_of(item: Any, path: Path = ()) -> dict[Path, Any]:
    """The arrays of one update by their path; raises TypeError for what is no update."""
    if len(path) > _DEPTH:
        raise TypeError(f"nested deeper than {_DEPTH} levels")
    if is_array(item):
        return {path: item}
    if isinstance(item, Mapping):
        children: Any = item.items()
    elif isinstance(item, (list, tuple)):
        if item and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in item):
            return {path: np.asarray(item, np.float64)}
        children = enumerate(item)
    elif isinstance(item, (bool, int, float)):
        return {path: np.asarray(item)}
    else:
        raise TypeError(f"holds {type(item).__name__} where arrays are needed")
    found: dict[Path, Any] = {}
    for key, value in children:
        found.update(leaves_of(value, (*path, key)))
    return found


def rebuilt(item: Any, answers: dict[Path, Any], path: Path = ()) -> Any:
    """The template with the answers in place of its arrays."""
    if path in answers:
        return answers[path]
    if isinstance(item, Mapping):
        pairs = {key: rebuilt(value, answers, (*path, key)) for key, value in item.items()}
        try:
            return type(item)(pairs)  # type: ignore[call-arg]  # OrderedDict and its like
        except TypeError:
            return pairs
    values = [rebuilt(value, answers, (*path, index)) for index, value in enumerate(item)]
    return type(item)(*values) if hasattr(item, "_fields") else type(item)(values)


def named(path: Path) -> str:
    """A leaf's path as people write it."""
    return ".".join(str(key) for key in path) or "the update"


def _signature(kinds: dict[Path, Kind]) -> frozenset[tuple[Path, tuple[int, ...], bool]]:
    return frozenset((path, kind.shape, kind.discrete) for path, kind in kinds.items())


def _difference(kinds: dict[Path, Kind], layout: dict[Path, Kind]) -> str:
    """What sets a row's structure apart from that of most."""
    for path in layout:
        if path not in kinds:
            return f"without {named(path)}"
        if kinds[path].shape != layout[path].shape:
            return f"of shape {kinds[path].shape} where most have {layout[path].shape} ({named(path)})"
        if kinds[path].discrete != layout[path].discrete:
            return f"of type {kinds[path].dtype} where most have {layout[path].dtype} ({named(path)})"
    extra = [path for path in kinds if path not in layout]
    return f"with an extra {named(extra[0])}" if extra else "of another structure"


def layout_of(updates: Sequence[Any]) -> tuple[Layout, list[dict[Path, Any] | None], dict[int, str]]:
    """The structure that most rows share, the leaves of the rows that have it, and what is wrong with the others."""
    leaves: list[dict[Path, Any] | None] = []
    kinds: list[dict[Path, Kind] | None] = []
    faults: dict[int, str] = {}
    for row, item in enumerate(updates):
        try:
            found = leaves_of(item)
            kinds.append({path: Kind.of_array(leaf) for path, leaf in found.items()})
            leaves.append(found)
        except (TypeError, RecursionError) as error:
            faults[row] = str(error)
            leaves.append(None)
            kinds.append(None)
    tally = Counter(_signature(kind) for kind in kinds if kind is not None)
    if not tally:
        raise TypeError(f"Updates need arrays of numbers in every row, and row 0 {faults[0]}.")
    (most, count), *others = tally.most_common()
    if others and others[0][1] == count:
        sample = [next(k for k in kinds if k is not None and _signature(k) == s) for s in (others[0][0], most)]
        refuse(
            f"Updates need one shape, and {plural(count, 'row')} and {plural(count, 'row')} disagree: some are "
            f"{_difference(*sample)}. Which is right cannot be told."
        )
    first = next(row for row, kind in enumerate(kinds) if kind is not None and _signature(kind) == most)
    sound = [k for k in kinds if k is not None and _signature(k) == most]
    layout = {}
    for path, kind in (kinds[first] or {}).items():
        types = Counter((k[path].dtype, k[path].library) for k in sound)
        dtype, library = types.most_common(1)[0][0]
        layout[path] = next(k[path] for k in sound if (k[path].dtype, k[path].library) == (dtype, library))
    for row, kind in enumerate(kinds):
        if kind is not None and _signature(kind) != most:
            faults[row] = _difference(kind, layout)
            leaves[row] = None
    return Layout(updates[first], layout), leaves, faults


def receive(updates: Sequence[Any]) -> "Arrival":
    """Give a home to a list of n arrays or trees."""
    from mixtailor.updates.receive import Arrival

    if any(on_device(leaf) for leaf in _first_leaves(updates)):
        from mixtailor.updates import device

        return device.receive_trees(updates)
    layout, leaves, faults = layout_of(updates)
    received = [row for row, found in enumerate(leaves) if found is not None]
    paths = layout.continuous
    single = list(layout.kinds) == [()]
    if single and layout.kinds[()].discrete:  # whole numbers as a plain update: computed in float64
        kind = layout.kinds[()]
        layout = Layout(layout.template, {(): Kind(kind.library, np.dtype(np.float64), kind.shape, False)})
        paths = [()]
    homes = [
        Dense([layout.kinds[path].converted((leaves[row] or {})[path]) for row in received], Call(), received)
        for path in paths
    ]
    home: Home = homes[0] if len(homes) == 1 else Tree(homes, Call(), received)

    def restore(answer: Any, left: Home) -> Any:
        parts = [answer] if len(homes) == 1 else answer
        answers = {path: layout.kinds[path].back(part) for path, part in zip(paths, parts, strict=True)}
        for path in layout.discrete:
            kind = layout.kinds[path]
            rows = [kind.converted((leaves[row] or {})[path]) for row in left.received]
            answers[path] = kind.back(discrete_answer(kind, rows))
        return rebuilt(layout.template, answers)

    def flatten(reference: Any) -> Any:
        found = leaves_of(reference)
        missing = [path for path in paths if path not in found]
        if missing:
            refuse(f"The reference needs the layers of one update and is without {named(missing[0])}.")
        return np.concatenate([layout.kinds[path].flatten(found[path]) for path in paths] or [np.empty(0)])

    return Arrival(home, faults, len(updates), restore, flatten)


def _first_leaves(updates: Sequence[Any]) -> list[Any]:
    for item in updates:
        try:
            return [leaf for leaf in leaves_of(item).values() if is_torch(leaf)]
        except (TypeError, RecursionError):
            continue
    return []
