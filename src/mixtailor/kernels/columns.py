"""Columnwise statistics: median, trimmed mean, mean around a centre, vote of the signs.

Columns are sorted by networks of minima and maxima, a register of columns at a time. For few rows and long runs a
network is compiled for the very number of rows and statistic, and never leaves the registers; compiling it takes about
a second, once a machine, so short runs and many rows go through one network that is a list of comparisons.

Every statistic returns whether all entries of all rows are finite; if not, its answers mean nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import kernel, run_at, special_kernel, types
from mixtailor.kernels.lanes import REGISTER, Code, Data, Element, Lanes, Word, emitted
from mixtailor.kernels.networks import comparators
from mixtailor.kernels.statistics import (
    AROUND,
    MEDIAN,
    TRIMMED,
    columns_in_registers,
    columns_of_tile,
    plan,
    sort_tile,
)

__all__ = ["around", "median", "sign_vote", "trimmed_mean"]

Indices = NDArray[np.intp]

FEW = 16  # rows: all of them, and the sums, fit the registers or nearly so
TILE = 800  # registers in a tile: somewhat more than the first-level cache, since shorter runs are read slowly
LONG = 4096  # columns in a run that is worth a network of its own


@functools.cache
def _in_registers(rows: int, kind: int, trim: int, keep: int) -> Callable[[Indices, Any, int, Any], bool]:
    @special_kernel(rows, kind, trim, keep)
    def sorted_in_registers(addresses: Any, like: Any, width: Any, out: Any) -> Any:
        per = REGISTER // like.itemsize
        vectors = width // per
        fault = columns_in_registers(addresses, 0, vectors, out, like, rows, kind, trim, keep)
        left = width - vectors * per
        if left:
            edge = np.zeros((rows + 1, per), like.dtype)
            places = np.empty(rows, np.intp)
            for j in range(rows):
                edge[j, :left] = run_at(addresses[j], like, vectors * per, left)
                places[j] = edge[j].ctypes.data
            fault += columns_in_registers(places, 0, 1, edge[rows], like, rows, kind, trim, keep)
            out[vectors * per :] = edge[rows, :left]
        return fault == 0.0

    return sorted_in_registers


@emitted(types.float64)
def _copy(code: Code, source: Word, target: Data, vectors: Word, like: Element) -> Any:
    """Copy registers; 0, or NaN where an entry is not finite."""
    count = code.per_register(like)
    zero = code.constant(0.0, like, count)
    fault = code.variable(zero)
    with code.loop(vectors) as step:
        x = code.load(code.offset(source, step, REGISTER), like, count)
        code.store(x, code.offset(target, step, REGISTER))
        fault.set(x.times_plus(zero, fault.get()))
    return fault.get().widened().total()


@functools.cache
def _in_tile(kind: int, trimmed: int) -> Callable[[Indices, Any, int, int, int, Any, Any], bool]:
    @special_kernel(kind, trimmed)
    def sorted_in_tile(addresses: Any, like: Any, width: Any, trim: Any, keep: Any, pairs: Any, out: Any) -> Any:
        rows = addresses.size
        per = REGISTER // like.itemsize
        run = max(1, min(16, TILE // rows)) * per
        tile = np.zeros((rows, run), like.dtype)
        answer = np.empty(run, like.dtype)
        pitch = tile.strides[0]
        fault = 0.0
        for start in range(0, width, run):
            length = min(run, width - start)
            whole = length // per
            for j in range(rows):
                fault += _copy(addresses[j] + start * like.itemsize, tile[j], whole, like)
            if whole * per < length:
                for j in range(rows):
                    row = run_at(addresses[j], like, start, length)
                    for c in range(whole * per, length):
                        tile[j, c] = row[c]
                        fault += 0.0 * row[c]
            vectors = (length + per - 1) // per
            sort_tile(tile, pitch, vectors, pairs, pairs.shape[0], like)
            columns_of_tile(tile, pitch, vectors, answer, rows, trim, keep, like, kind, trimmed)
            out[start : start + length] = answer[:length]
        return fault == 0.0

    return sorted_in_tile


@functools.lru_cache(maxsize=256)
def _offsets(rows: int, kind: int, trim: int, keep: int, size: int) -> NDArray[np.int64]:
    """The comparators of a network, as offsets of rows in the tile that `_in_tile` makes."""
    per = REGISTER // size
    pitch = max(1, min(16, TILE // rows)) * per * size
    pairs = comparators(rows, *plan(rows, kind, trim, keep))
    return np.array(pairs, np.int64).reshape(-1, 2) * pitch


def _columns(addresses: Indices, like: NDArray[Any], width: int, kind: int, trim: int, keep: int, out: Any) -> bool:
    rows = addresses.size
    if rows <= FEW and width >= LONG:
        return bool(_in_registers(rows, kind, trim, keep)(addresses, like, width, out))
    pairs = _offsets(rows, kind, trim, keep, like.itemsize)
    trimmed = int(kind == TRIMMED or (kind == AROUND and trim >= 0))
    return bool(_in_tile(kind, trimmed)(addresses, like, width, trim, keep, pairs, out))


def median(addresses: Indices, like: NDArray[Any], width: int, out: NDArray[Any]) -> bool:
    """Median of every column, for even k the mean of the two middle values; whether all entries are finite."""
    return _columns(addresses, like, width, MEDIAN, -1, 0, out)


def trimmed_mean(addresses: Indices, like: NDArray[Any], width: int, trim: int, out: NDArray[Any]) -> bool:
    """Mean of every column without its `trim` smallest and largest values; whether all entries are finite."""
    return _columns(addresses, like, width, TRIMMED, int(trim), 0, out)


def around(addresses: Indices, like: NDArray[Any], width: int, trim: int, keep: int, out: NDArray[Any]) -> bool:
    """Mean of the `keep` values of every column nearest to its centre; whether all entries are finite.

    The centre is the median for a negative `trim`, else the trimmed mean. The nearest values are neighbours in the
    sorted column, so the window moves up as long as the value that enters is nearer than the one that leaves: of two
    windows that are equally near, the lower one counts.
    """
    return _columns(addresses, like, width, AROUND, max(-1, int(trim)), int(keep), out)


@emitted(types.float64)
def _votes(code: Code, sources: Data, vectors: Word, rows: Word, out: Data, like: Element) -> Any:
    """Signs of the sums of signs, `vectors` registers of them. Returns 0, or NaN where an entry is not finite."""
    builder, count = code.builder, code.per_register(like)
    zero, one = (code.constant(value, like, count) for value in (0.0, 1.0))

    def sign(x: Lanes) -> Lanes:
        return (zero < x).choose(one, zero) - (x < zero).choose(one, zero)

    fault = code.variable(zero)
    with code.loop(vectors) as step:
        votes = code.variable(zero)
        here = builder.mul(step, step.type(REGISTER))
        with code.loop(rows) as row:
            x = code.load(builder.add(code.word(code.offset(sources, row, 8)), here), like, count)
            votes.set(votes.get() + sign(x))
            fault.set(x.times_plus(zero, fault.get()))
        code.store(sign(votes.get()), builder.add(out, here))
    return fault.get().widened().total()


@kernel
def sign_vote(addresses: Indices, like: Any, width: int, out: Any) -> bool:
    """Sign of the sum of the signs of every column; whether all entries are finite."""
    per = REGISTER // like.itemsize
    vectors = width // per
    fault = _votes(addresses, vectors, addresses.size, out, like)
    for c in range(vectors * per, width):
        votes = 0
        for j in range(addresses.size):
            value = run_at(addresses[j], like, c, 1)[0]
            votes += int(value > 0) - int(value < 0)
            fault += 0.0 * value
        out[c] = int(votes > 0) - int(votes < 0)
    return bool(fault == 0.0)
