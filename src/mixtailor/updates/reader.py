"""The one loop over coordinates, `Reader`, and what it does with points: from a point to its coordinates.

Threads, ranks, faults and progress are handled here and nowhere else.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, final

import numpy as np

from mixtailor._types import Array, Floats, Integers
from mixtailor.intake.arrival import Arrival
from mixtailor.kernels.columnwise import Around, Median, Trimmed, WeightedMedian, WeightedTrimmed
from mixtailor.kernels.norms import added
from mixtailor.kernels.space import NUMBA, Block
from mixtailor.storage.rows import Broken
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point

__all__ = ["Faulty", "Reader", "coordinates_of", "evaluate", "only_row", "values"]

Query = Callable[[int, int], Any]  # what is computed on the coordinates from `start` to `stop`
Runs = list[tuple[int, int]]

# Below this many entries, starting another thread takes longer than it saves.
_SMALL = 1 << 19
# A pass holds at most about this many numbers that are still to be summed, or those of so many ranges.
_HELD = 1 << 17
_LEAST_RUNS = 8
# Lengths beyond this are measured for no training: a received row that has one is a fault.
_LONGEST = 1e140
# What no number can say counts as this: it can be squared and summed.
_LARGEST = 1e150
# Statistics that move with their column.
_MOVING = (Median, Trimmed, Around, WeightedMedian, WeightedTrimmed)


@final
class Faulty(Exception):  # a signal to the rule's caller, not an error that a user sees
    """Received updates prove a fault, most often by non-finite entries. The caller removes them and starts again."""

    def __init__(self, rows: Sequence[int], reason: str = "not finite") -> None:
        super().__init__(f"rows {list(rows)} are {reason}")
        self.rows = tuple(int(row) for row in rows)
        self.reason = reason


@final
class Reader:
    """Reads a storage, range by range. It is also the source of blocks of the rows as they are stored.

    Sums are formed in the order of the ranges, whatever the threads do: the same bits every time. Where a sum is not
    finite, or a vector that a query made was not, the rows are searched for non-finite entries, and those that have
    some are reported by `Faulty`.
    """

    def __init__(self, arrival: Arrival) -> None:
        storage = arrival.storage
        self.arrival, self.storage, self.received, self.group = arrival, storage, arrival.received, arrival.group
        self.space, self.n = storage.space, storage.n
        self.block, self.runs = storage.block, storage.runs
        self.examined = False  # all rows are known to be finite
        self._finite: list[Any] = []
        self._doubt = False
        self._threaded = not storage.ordered and storage.n * storage.d > _SMALL

    def only(self, rows: Sequence[int]) -> "Reader":
        """A reader of some rows; a base after them stays."""
        storage = self.storage.only([*rows, *range(len(self.received), self.storage.n)])
        received = tuple(self.received[row] for row in rows)
        return Reader(replace(self.arrival, storage=storage, received=received))

    made = False  # these rows are stored, not computed

    def coordinates(self, which: Integers) -> Array:
        """Single coordinates of all stored rows, in ascending order."""
        start, stop = self.storage.span
        here = (which >= start) & (which < stop)
        found: Array = self._guarded(self.storage.coordinates, which[here])
        if self.group is None:
            return found
        placed = np.zeros((self.n, len(which)))
        placed[:, here] = found
        return self.group.sum(placed, False)[0].astype(found.dtype)

    def copy_row(self, row: int, result: Any) -> None:
        """Write one stored row to the result, bit for bit."""
        self._guarded(self.storage.copy_row, row, result)

    def note(self, finite: Any) -> None:
        """A query reports whether a vector that it made is finite."""
        self._finite.append(finite)

    def collect(self, query: Query, runs: Runs) -> Array:
        """What the query gives for each range, stacked in order."""
        ask = query if self.arrival.watch is None else partial(self._watched, query)
        jobs = [partial(ask, start, stop) for start, stop in runs]
        found, sound = self._guarded(self.space.collect, jobs, self._finite, threaded=self._threaded)
        self._doubt |= not sound
        return np.asarray(found)

    def visit(self, query: Query, runs: Runs) -> None:
        """Let the query see one range after the other; it has the threads to itself."""
        ask = query if self.arrival.watch is None else partial(self._watched, query)
        for start, stop in runs:
            self._guarded(ask, start, stop)

    def _watched(self, query: Query, start: int, stop: int) -> Any:
        found = query(start, stop)
        assert self.arrival.watch is not None
        self.arrival.watch((stop - start) / max(self.storage.d, 1))
        return found

    def total(self, query: Query, runs: Runs, size: int = 1) -> Floats:
        """The sum over all coordinates of `size` numbers."""
        step = max(_LEAST_RUNS, _HELD // max(size, 1))
        found = self.collect(query, runs[:step]).sum(axis=0)
        for at in range(step, len(runs), step):
            found = found + self.collect(query, runs[at : at + step]).sum(axis=0)
        return self.summed(np.asarray(found, np.float64))

    def summed(self, values: Floats) -> Floats:
        """Sums over the coordinates of this process as sums over all; where one is not finite, rows are examined."""
        doubt, self._doubt = self._doubt, False
        if self.group is not None:
            values, doubt = self.group.sum(values, doubt)
        if doubt or not np.isfinite(values).all():
            self.examine()
        return values

    def lengths(self, query: Query, runs: Runs, powers: Floats, size: int) -> Floats:
        """The l_p lengths over all coordinates of `size` vectors, (P, size); the query gives those on a range."""
        step, found = max(_LEAST_RUNS, _HELD // max(size * len(powers), 1)), None
        for at in range(0, len(runs), step):
            parts = self.collect(query, runs[at : at + step]).reshape(-1, len(powers), size)
            if found is not None:
                parts = np.concatenate([found[None], parts])
            found = parts[0] if len(parts) == 1 else added(parts, powers)
        assert found is not None  # there is always one range, though it may be empty
        lengths, doubt, self._doubt = np.asarray(found, np.float64), self._doubt, False
        if self.group is not None:
            lengths, doubt = self.group.lengths(lengths, powers, doubt)
        if doubt or not (lengths <= _LONGEST).all():
            self.examine()
            lengths = np.where(lengths <= _LARGEST, lengths, _LARGEST)
        return lengths

    def lengths_to(self, source: Any, point: Point | None, norms: Sequence[float]) -> Floats:
        """The l_p distances of the rows of a source to a point, (P, n), by one reading; to the origin without one."""
        powers, space = np.array(norms, np.float64), self.space

        def query(start: int, stop: int) -> Any:
            aim = space.zeros(stop - start) if point is None else values(point, start, stop)
            return space.point_lengths(source.block(start, stop), aim, powers)

        return self.lengths(query, source.runs(), powers, source.n)

    def fill(self, write: Query, runs: Runs) -> None:
        """Write a result range by range; `write` returns whether what it wrote is finite."""
        doubt = not self.collect(write, runs).all() or self._doubt
        self._doubt = False
        if self.group is not None:
            doubt = self.group.sum(np.zeros(0), doubt)[1]
        if doubt:
            self.examine()

    def suspect(self, values: Array) -> None:
        """Search the rows for faults where these values of theirs show one."""
        if values.size and not (values.min() >= -_LONGEST and values.max() <= _LONGEST):  # no copy, as of abs
            self.examine()

    def examine(self) -> None:
        """Search the rows for entries that are not finite, or in float64 beyond what rules can square and sum."""
        if self.examined:
            return
        found = self.collect(lambda start, stop: self.space.finite_rows(self.block(start, stop)), self.runs())
        self._doubt = False
        faulty = np.asarray(~found.all(axis=0), np.float64)
        if self.group is not None:
            faulty = self.group.sum(faulty, False)[0]
        if faulty.any():
            raise Faulty([self.received[row] for row in np.nonzero(faulty)[0]])
        self.examined = True
        if not self.storage.single:
            largest = self.lengths_to(self, None, [np.inf])[0, : len(self.received)]
            if (largest > _LONGEST).any():
                raise Faulty([self.received[row] for row in np.nonzero(largest > _LONGEST)[0]], "beyond 1e140")

    def _guarded(self, read: Callable[..., Any], *given: Any, **options: Any) -> Any:
        """What a reading gives. Rows that can no longer be read prove a fault; a base that cannot is an error."""
        try:
            return read(*given, **options)
        except Broken as error:
            if any(row >= len(self.received) for row in error.rows):
                raise ValueError(f"The base needs to be a file that can be read, and is {error.reason}.") from None
            raise Faulty([self.received[row] for row in error.rows], error.reason) from None


def only_row(weights: Floats) -> int | None:
    """The row that a combination with these weights equals; None where it equals none.

    Examples
    --------
    >>> only_row(np.array([0.0, 1.0, 0.0])), only_row(np.array([0.0, 0.5, 0.0])), only_row(np.array([0.5, 0.5]))
    (1, None, None)
    """
    used = np.nonzero(weights)[0]
    return int(used[0]) if len(used) == 1 and weights[used[0]] == 1.0 else None


def values(point: Point, start: int, stop: int) -> Any:
    """A point's coordinates on one range, in float64."""
    view = point.updates
    if isinstance(point, Given):
        first = view.reader.storage.span[0]
        return view.space.vector(point.vector[start - first : stop - first])
    if isinstance(point, Formula):
        return point.function(start, stop, *(values(part, start, stop) for part in point.parts))
    if isinstance(point, Combination):
        found, finite = view.space.combine(view.source.block(start, stop), point.weights)
    elif isinstance(point, Columns):
        found, finite = view.space.columns(view.source.block(start, stop), point.statistic)
    else:
        raise TypeError(f"{point!r} is not a point of this package.")
    view.reader.note(finite)
    return found


def coordinates_of(point: Point, which: Integers) -> Floats:
    """Single coordinates of a point, in ascending order."""
    view = point.updates
    if isinstance(point, (Combination, Columns)):
        block = Block.of(np.ascontiguousarray(view.source.coordinates(which), np.float64))
        if isinstance(point, Combination):
            return np.asarray(NUMBA.combine(block, point.weights)[0])
        assert isinstance(point, Columns)
        return np.asarray(NUMBA.columns(block, point.statistic)[0])
    reader = view.reader
    if isinstance(point, Given) and reader.group is None:
        return np.asarray(view.space.host(view.space.vector(point.vector[which])))

    def query(start: int, stop: int) -> Any:
        found = np.zeros(len(which))
        here = (which >= start) & (which < stop)
        if here.any():
            found[here] = view.space.host(values(point, start, stop))[which[here] - start]
        return found

    return np.asarray(reader.total(query, view.source.runs(), len(which)))


def evaluate(point: Point) -> Any:
    """A point's coordinates as a new result, flat, in the type of one update. One row is a copy, bit for bit."""
    view, reader, space = point.updates, point.updates.reader, point.updates.space
    storage, source, result = reader.storage, view.source, reader.storage.new()
    if isinstance(point, Combination):
        _combine(view, point.weights, result)
        return result
    if not isinstance(point, Columns):
        source = storage

        def write(start: int, stop: int) -> Any:
            space.store(values(point, start, stop), storage.window(result, start, stop))
            return True

    elif reader.arrival.base and view.as_received() and isinstance(point.statistic, _MOVING):
        source = storage

        def write(start: int, stop: int) -> Any:
            """The statistic of the stored rows, less the base: the differences themselves are not made."""
            block = storage.block(start, stop)
            found, finite = space.columns(space.take(block, np.arange(reader.n - 1)), point.statistic)
            base = space.combine(space.take(block, np.array([reader.n - 1])), np.ones(1))[0]
            space.store(found - base, storage.window(result, start, stop))
            return finite

    else:

        def write(start: int, stop: int) -> Any:
            return space.columns_into(source.block(start, stop), point.statistic, storage.window(result, start, stop))

    reader.fill(write, source.runs())
    return result


def _combine(view: Any, weights: Floats, result: Any) -> None:
    reader, source = view.reader, view.source
    if reader.group is not None and not reader.group.same_bits:
        # Processes on different processors may differ in the last bit of what they decided from the same numbers.
        weights = reader.group.agreed(weights)
    if view.basis.stored and not source.made:
        source, weights = view.basis.source, view.over_basis(weights)
        if view.basis.base is not None and not view.is_everything():  # rows are differences to it
            weights[view.basis.base] -= weights.sum()
        row = only_row(weights)
        if row is not None:
            if not view.basis.known_lengths() and not reader.examined:  # else a pass has read it
                reader.only([row]).examine()
            reader.copy_row(row, result)
            return
    used = np.nonzero(weights)[0]
    weights = weights[used]

    def write(start: int, stop: int) -> Any:
        block = source.block(start, stop)
        if len(used) < source.n:
            block = reader.space.take(block, used)
        return reader.space.combine_into(block, weights, reader.storage.window(result, start, stop))

    reader.fill(write, source.runs())
