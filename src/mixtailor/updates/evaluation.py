"""From a point to its coordinates: on one range for a query, or all of them for a result."""

from functools import partial
from typing import Any

import numpy as np

from mixtailor._types import Floats, Integers
from mixtailor.kernels.columnwise import AroundMedian, AroundTrimmed, Median, Trimmed
from mixtailor.kernels.space import Block
from mixtailor.storage.matrix import NUMBA
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point, only_row

__all__ = ["coordinates_of", "evaluate", "values"]

# Statistics that move with their column.
_MOVING = (Median, Trimmed, AroundMedian, AroundTrimmed)


def values(point: Point, start: int, stop: int) -> Any:
    """A point's coordinates on one range, in float64."""
    view = point.updates
    if isinstance(point, Given):
        first = view.reader.storage.span[0]
        return view.space.vector(point.vector[start - first : stop - first])
    if isinstance(point, Formula):
        return point.function(start, stop, *(values(part, start, stop) for part in point.parts))
    if isinstance(point, Combination):
        found, finite = view.space.combine(view.block(start, stop), point.weights)
    elif isinstance(point, Columns):
        found, finite = view.space.columns(view.block(start, stop), point.statistic)
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
    if isinstance(point, Given) and reader.group.count == 1:
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
    view, reader = point.updates, point.updates.reader
    storage, result = reader.storage, reader.storage.new()
    if isinstance(point, Combination):
        _combine(view, point.weights, result)
    elif isinstance(point, Columns):
        source = view.source
        if reader.base and getattr(source, "shared", False) and isinstance(point.statistic, _MOVING):
            reader.fill(partial(_shifted_columns, reader, point, result), reader.runs())
        else:
            reader.fill(partial(_columns, reader, source, point, result), source.runs())
    else:
        reader.fill(partial(_values, point, result), storage.runs())
    return result


def _combine(view: Any, weights: Floats, result: Any) -> None:
    reader = view.reader
    if not reader.group.alike:
        # Processes on different processors may differ in the last bit of what they decided from the same numbers.
        weights = reader.group.agreed(weights)
    source = view.source
    if view.basis.stored and not source.made:
        source, weights = view.basis.source, view.over_basis(weights)
        row = only_row(weights)
        if row is not None:
            view.check_row(row)
            reader.storage.copy_row(row, result)
            reader.check_changed()
            return
    used = np.nonzero(weights)[0]
    reader.fill(partial(_combination, reader, source, weights[used], used, result), source.runs())


def _combination(reader: Any, source: Any, weights: Floats, used: Integers, result: Any, start: int, stop: int) -> Any:
    block = source.block(start, stop)
    if len(used) < source.n:
        block = reader.space.take(block, used)
    return reader.space.combine_into(block, weights, reader.storage.window(result, start, stop))


def _columns(reader: Any, source: Any, point: Columns, result: Any, start: int, stop: int) -> Any:
    window = reader.storage.window(result, start, stop)
    return reader.space.columns_into(source.block(start, stop), point.statistic, window)


def _shifted_columns(reader: Any, point: Columns, result: Any, start: int, stop: int) -> Any:
    """The statistic of the stored rows, less the base: the differences themselves are not made."""
    space, block = reader.space, reader.block(start, stop)
    found, finite = space.columns(space.take(block, np.arange(reader.n - 1)), point.statistic)
    base = space.combine(space.take(block, np.array([reader.n - 1])), np.ones(1))[0]
    space.store(found - base, reader.storage.window(result, start, stop))
    return finite


def _values(point: Point, result: Any, start: int, stop: int) -> Any:
    reader = point.updates.reader
    reader.space.store(values(point, start, stop), reader.storage.window(result, start, stop))
    return True
