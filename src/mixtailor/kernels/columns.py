"""Columnwise statistics: median, trimmed mean, mean around a centre, vote of the signs.

Columns are sorted by networks of minima and maxima, a register of columns at a time. For few rows and long runs a
network is compiled for the very number of rows and statistic, and never leaves the registers; compiling it takes about
a second, once a machine, so short runs and many rows go through one network that is a list of comparisons.

Every statistic returns whether all entries of all rows are finite; if not, its answers mean nothing.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import copy, kernel, run_at, special_kernel, types
from mixtailor.kernels.combinations import combine, mix_run
from mixtailor.kernels.lanes import REGISTER, Code, Data, Element, Lanes, Word, emitted
from mixtailor.kernels.networks import comparators
from mixtailor.kernels.selection import distinct
from mixtailor.kernels.statistics import (
    AROUND,
    MEDIAN,
    TRIMMED,
    call_network,
    columns_of_tile,
    network_at,
    plan,
    sort_tile,
)
from mixtailor.kernels.subsets import FEWEST, codes_of, means_of_subsets

__all__ = ["around", "median", "sign_vote", "trimmed_mean"]

Indices = NDArray[np.intp]
Rows: TypeAlias = tuple[Indices, NDArray[Any], int]

UNMIXED = np.zeros((0, 0))
_NOBODY = np.zeros(0, np.int64)
_WIDE = np.empty(0)

FEW = 16  # rows: all of them, and the sums, fit the registers or nearly so
TILE = 800  # registers in a tile: somewhat more than the first-level cache, since shorter runs are read slowly
MIXED = 512  # columns that are mixed at a time: a dozen rows of them stay in the first-level cache
LONG = 4096  # columns in a run that is worth a network of its own


@functools.cache
def _in_registers(mixed: int) -> Callable[..., bool]:
    @special_kernel(mixed)
    def sorted_in_registers(
        network: Any, addresses: Any, like: Any, width: Any, mixing: Any, alike: Any, copied: Any, places: Any, out: Any
    ) -> Any:
        """By a network that is given by its address, so that this is compiled once for all of them.

        Runs that are mixed, or do not fill their last register, are copied to the first rows of `copied`; the last row
        has results.
        """
        rows, run = places.size, copied.shape[1]
        per = REGISTER // copied.itemsize
        fault = np.zeros(1)
        start = 0
        # One loop for all kinds of runs: each place that the network is called from is compiled.
        while start < width:
            length = min(run, width - start)
            target = copied[rows].ctypes.data
            for j in range(rows):
                places[j] = copied[alike[j] if mixed else j].ctypes.data
            if mixed:
                fault[0] += 0.0 if mix_run(addresses, like, start, length, mixing, copied) else np.nan
            elif start == 0 and width >= per:
                length = width // per * per
                copy(addresses, places, rows)
                target = out.ctypes.data
            else:
                for j in range(rows):
                    copy(run_at(addresses[j], like, start, length), copied[j], length)
            call_network(network, places, (length + per - 1) // per, target, fault)
            if target != out.ctypes.data:
                copy(copied[rows], out[start:], length)
            start += length
        return fault[0] == 0.0

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
            copy(answer, out[start : start + length], length)
        return fault == 0.0

    return sorted_in_tile


@functools.lru_cache(maxsize=256)
def _offsets(rows: int, kind: int, trim: int, keep: int, size: int) -> NDArray[np.int64]:
    """The comparators of a network, as offsets of rows in the tile that `_in_tile` makes."""
    per = REGISTER // size
    pitch = max(1, min(16, TILE // rows)) * per * size
    pairs = comparators(rows, *plan(rows, kind, trim, keep))
    return np.array(pairs, np.int64).reshape(-1, 2) * pitch


def _rounded(kind: int, like: NDArray[Any]) -> NDArray[Any]:
    """What mixed rows are rounded to, as `like`. A median or a mean is off by as much as they are, but which values are
    nearest to a centre may hang on the last digit, and with it much more."""
    return _WIDE if kind == AROUND else like


class _Plan(NamedTuple):
    """How rows are mixed: the distinct ones, which of them each row is, and the subsets that they are means of."""

    weights: NDArray[np.float64]
    alike: NDArray[np.int64]
    subsets: tuple[NDArray[np.uint8], NDArray[np.float64]] | None


_plans: dict[int, tuple[weakref.ref[Any], _Plan]] = {}


def _plan(mixing: NDArray[np.float64]) -> _Plan:
    """Made once for all blocks, if the array is read-only: with a thousand rows it takes as long as mixing a block."""
    known = _plans.get(id(mixing))
    if known is not None and known[0]() is mixing:
        return known[1]
    kept, alike = distinct(mixing)
    weights = np.ascontiguousarray(mixing[kept], np.float64)
    plan = _Plan(weights, alike, codes_of(weights) if mixing.shape[1] >= FEWEST else None)
    if not mixing.flags.writeable:
        key = id(mixing)
        _plans[key] = weakref.ref(mixing, lambda _: _plans.pop(key, None)), plan
    return plan


def _columns(rows: Rows, kind: int, trim: int, keep: int, out: Any, mixing: NDArray[np.float64] | None) -> bool:
    addresses, like, width = rows
    count, weights, alike, subsets, work = addresses.size, UNMIXED, _NOBODY, None, like
    if mixing is not None:
        # Nearest-neighbour mixing makes the same row many times: each is mixed once.
        weights, alike, subsets = _plan(mixing)
        count, work = len(mixing), _rounded(kind, like)
    if count <= FEW and width >= LONG:
        network = network_at(count, kind, trim, keep, int(work.itemsize == 4))
        run = REGISTER // work.itemsize if mixing is None else MIXED
        room = np.zeros((count + 1, run), work.dtype), np.empty(count, np.intp)
        sort = _in_registers(int(mixing is not None))
        return bool(sort(network, addresses, like, width, weights, alike, *room, out))
    if mixing is not None:
        mixed = np.empty((len(weights), width), work.dtype)
        if subsets is None:
            good = combine(addresses, like, width, weights, mixed)
        else:
            good = means_of_subsets(addresses, like, width, weights, *subsets, mixed)
        places = mixed.ctypes.data + mixed.strides[0] * alike
        answer = np.empty(width, mixed.dtype)
        good = good and _columns((places, mixed[0, :0], width), kind, trim, keep, answer, None)
        with np.errstate(over="ignore"):  # beyond the rows' type is infinite there
            out[:] = answer
        return good
    pairs = _offsets(count, kind, trim, keep, like.itemsize)
    trimmed = int(kind == TRIMMED or (kind == AROUND and trim >= 0))
    return bool(_in_tile(kind, trimmed)(addresses, like, width, trim, keep, pairs, out))


def median(
    addresses: Indices, like: NDArray[Any], width: int, out: NDArray[Any], mixing: NDArray[np.float64] | None = None
) -> bool:
    """Median of every column, for even k the mean of the two middle values; whether all entries are finite.

    Here and in the others, with `mixing` it is of the rows ``mixing @ x``, mixed in float64, which exist for a moment
    only.
    """
    return _columns((addresses, like, width), MEDIAN, -1, 0, out, mixing)


def trimmed_mean(
    addresses: Indices,
    like: NDArray[Any],
    width: int,
    trim: int,
    out: NDArray[Any],
    mixing: NDArray[np.float64] | None = None,
) -> bool:
    """Mean of every column without its `trim` smallest and largest values; whether all entries are finite."""
    return _columns((addresses, like, width), TRIMMED, int(trim), 0, out, mixing)


def around(
    addresses: Indices,
    like: NDArray[Any],
    width: int,
    trim: int,
    keep: int,
    out: NDArray[Any],
    mixing: NDArray[np.float64] | None = None,
) -> bool:
    """Mean of the `keep` values of every column nearest to its centre; whether all entries are finite.

    The centre is the median for a negative `trim`, else the trimmed mean. The nearest values are neighbours in the
    sorted column, so the window moves up as long as the value that enters is nearer than the one that leaves: of two
    windows that are equally near, the lower one counts.
    """
    return _columns((addresses, like, width), AROUND, max(-1, int(trim)), int(keep), out, mixing)


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
