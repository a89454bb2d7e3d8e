"""l_p distances between float32 rows, of any size, from one reading.

Differences and powers are float32, which makes a register hold twice as many; a float32 sum is never longer than a
tile, and all tiles together are summed in float64. What a tile gives is used only where it is sound: with sums between
2^-80 and 2^100 nothing overflowed, and powers that vanished, each below 2^-126, are no part of the sum. A pair outside
that range (two rows that are nearly or entirely equal) has its tile summed again, in float64 and in its own unit. So
has a pair whose sum is beyond what differences of `FAR` times the usual largest one make: rules compare sums of
distances, and rounding those to a far row to float32 would hide by how much the others differ.

Tiles are brought into the range by a power of two, which is exact, and every pair remembers the power of two that its
sum is in units of: so no size is too large or too small.

A difference is rounded once, a p-th power p + 5 times at most, and a lane adds up 64 of them at most: a distance is
right to (2 + 70 / p) 2^-24, for p = 1 to 4e-6, and as roundings go both ways, to some 1e-7.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import copy, helper, inlined, kernel, run_at
from mixtailor.kernels.addresses import call_pair, call_pairs, call_point, pair_at, pairs_at, point_at
from mixtailor.kernels.blocks import EVERY, MAXIMUM, one_pair, scale_rows, weigh
from mixtailor.kernels.combinations import finite_rows
from mixtailor.kernels.distances import aligned, edges, run_of, sums_with_point, term_of
from mixtailor.kernels.lanes import DOUBLES
from mixtailor.kernels.tiles import PER, places_of, vectors_of

__all__ = ["added", "combination_norms", "has_kernel", "pair_norms", "point_norms", "usual_exponent"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

HIGHEST = 16.0  # beyond this power, too few differences are in range
LOW, HIGH = 2.0**-80, 2.0**100
FAR = 4.0
LEAST = -(1 << 40)  # the unit of a sum without terms
RUN = 1024  # coordinates in a tile: 64 sums in a lane, and a dozen rows in little more than the first-level cache


@inlined
def _largest(first: int, second: int, length: int, like: Any, room: Any) -> Any:
    """The largest difference of two rows, zeros up to a whole register included."""
    room[0] = 0.0
    one_pair(first, second, (length + DOUBLES - 1) // DOUBLES, room, 1.0, 0.0, like, MAXIMUM)
    return room[0]


@helper
def usual_exponent(places: Any, length: int, like: Any, before: int, largest: Any) -> int:
    """The power of two above the usual largest difference: the median over neighbouring rows that are not equal."""
    rows = places.size
    count = 0
    for i in range(rows):
        found = _largest(places[i], places[(i + 1) % rows], length, like, largest[count:])
        count += int(0.0 < found < np.inf)
    exponent = before
    for i in range(count):
        below = 0  # by counting: a few lines, where sorting would be compiled longer than all else here
        for j in range(count):
            below += int(largest[j] < largest[i] or (largest[j] == largest[i] and j < i))
        if below == count // 2:
            exponent = int(math.frexp(largest[i])[1])
    return exponent


@inlined
def _doubtful(part: Any, first: float, last: float, pairs: Any) -> Any:
    """How many pairs have sums that float32 is not good for, in the lowest or the highest power, and which."""
    rows = part.shape[1]
    count = 0
    for i in range(rows):
        for j in range(i + 1, rows):
            low, high = part[0, i, j], part[-1, i, j]
            if not ((low >= LOW) & (low <= first) & (high >= LOW) & (high <= last)):
                pairs[count // rows, count % rows] = i * rows + j
                count += 1
    return count


@helper
def _add(part: Any, exponent: Any, total: Any, unit: Any, i: Any, j: Any, steps: Any) -> None:
    """Add the sums of a pair, in units of 2^exponent, to its totals; what is larger decides the unit."""
    away = exponent - unit[i, j]
    step = steps[min(abs(away), steps.size - 1)]
    factor = 1.0
    for plane in range(len(part)):
        factor *= step
        if away > 0:
            total[plane, i, j] = total[plane, i, j] * factor + part[plane, i, j]
        else:
            total[plane, i, j] += part[plane, i, j] * factor
    unit[i, j] = max(exponent, unit[i, j])


@inlined
def _add_tile(part: Any, exponent: int, total: Any, unit: Any, steps: Any, doubtful: Any, count: Any) -> None:
    """Add the sums of a tile, but for the doubtful pairs."""
    planes, rows = part.shape[:2]
    skipped = 0
    for i in range(rows):
        for j in range(i + 1, rows):
            if skipped < count and doubtful[skipped // rows, skipped % rows] == i * rows + j:
                skipped += 1
            elif exponent == unit[i, j]:
                for plane in range(planes):
                    total[plane, i, j] += part[plane, i, j]
            else:
                _add(part, exponent, total, unit, i, j, steps)


@functools.lru_cache(maxsize=256)
def _steps(p: float) -> Floats:
    """2^(-p k): with it sums in different units are added without a logarithm. Beyond, one of them is nothing."""
    return np.append(2.0 ** (-p * np.arange(256)), 0.0)


@kernel
def _finish(total: Any, unit: Any, p: float) -> None:
    """Sums of powers to distances, on both sides of the diagonal."""
    planes, rows = total.shape[:2]
    for plane in range(planes):
        root = 1.0 / (plane + 1.0 if planes > 1 else p)
        for i in range(rows):
            for j in range(i + 1, rows):
                norm = total[plane, i, j] ** root
                if 0.0 < norm < np.inf:
                    norm = math.ldexp(norm, unit[i, j])
                total[plane, i, j] = total[plane, j, i] = norm


@kernel
def _scaled_sums_of_pairs(
    sum_pairs: Any,
    sum_pair: Any,
    addresses: Any,
    like: Any,
    width: Any,
    p: Any,
    steps: Any,
    tile: Any,
    edge: Any,
    part: Any,
    total: Any,
    alone: Any,
    unit: Any,
    room: Any,
) -> Any:
    """Adds to the totals, each in units of its power of two; whether rows are finite. The rest is room to work.

    What is summed is given by the addresses of two functions, so that this is compiled once for all powers.
    """
    planes, rows = part.shape[:2]
    places, doubtful = room[0], room[1:]
    finite = rows > 1
    shift = LEAST
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        vectors = (length + PER - 1) // PER
        # The largest sums that are sound, in the lowest and in the highest power.
        first = min(HIGH, length * (FAR if planes > 1 else FAR**p))
        last = min(HIGH, length * FAR**planes) if planes > 1 else first
        count = np.int64(0)  # a plain 0 is a type of its own, and whoever gets it would be compiled twice
        places_of(addresses, like, start, length, edge, places)
        for attempt in range(2):
            if shift == LEAST or (attempt == 1 and 4 * count > rows * (rows - 1)):
                before = shift
                shift = usual_exponent(places, length, like, max(before, -200), alone[planes:])
                if shift == before:
                    break
            elif attempt == 1:
                break
            half = shift // 2
            one, two = math.ldexp(1.0, -half), math.ldexp(1.0, half - shift)
            scale_rows(places, 0, rows, vectors, tile, tile.strides[0], one, two)
            for plane in range(planes):
                for i in range(rows):
                    for j in range(rows):
                        part[plane, i, j] = 0.0
            call_pairs(sum_pairs, tile, tile.strides[0], vectors, part, rows, p)
            count = _doubtful(part, first, last, doubtful)
        _add_tile(part, shift, total, unit, steps, doubtful, count)
        for pair in range(count):
            i, j = divmod(doubtful[pair // rows, pair % rows], rows)
            exponent = unit[i, j]
            for attempt in range(2):
                if attempt == 1 or part[0, i, j] == 0.0 or exponent == LEAST:
                    largest = _largest(places[i], places[j], length, like, alone)
                    if not largest < np.inf:
                        finite = False
                    if not 0.0 < largest < np.inf:
                        break
                    exponent = max(math.frexp(largest)[1], -1000)  # beyond, its inverse would overflow
                for plane in range(planes):
                    alone[plane] = 0.0
                scale = math.ldexp(1.0, -exponent)
                call_pair(sum_pair, places[i], places[j], 2 * vectors, alone, scale, p)
                if 1e-200 < alone[0] < 1e200 and 1e-200 < alone[planes - 1] < 1e200:
                    for plane in range(planes):
                        part[plane, i, j] = alone[plane]
                    _add(part, exponent, total, unit, i, j, steps)
                    break
    return finite


def _norms(addresses: Indices, like: NDArray[np.float32], width: int, term: int, p: float) -> Floats:
    # What does not depend on the term is compiled once, and not with each; what is allocated here, not at all.
    rows, planes = addresses.size, max(1, term - EVERY)
    tile, edge = aligned(rows, RUN + PER, np.float32), edges(rows, width, RUN, np.float32)
    part, total, alone = np.zeros((planes, rows, rows)), np.zeros((planes, rows, rows)), np.zeros(planes + rows)
    unit, room = np.full((rows, rows), LEAST), np.empty((rows + 1, rows), np.intp)
    functions = pairs_at(term, 1), pair_at(term, 1)
    finite = _scaled_sums_of_pairs(
        *functions, addresses, like, width, p, _steps(p), tile, edge, part, total, alone, unit, room
    )
    _finish(total, unit, p)
    if not finite:
        lost = ~finite_rows(addresses, like, width)
        total[:, lost] = total[:, :, lost] = np.nan
    return total


def has_kernel(p: float) -> bool:
    """Whether `pair_norms` has a kernel for this norm. Not for p = 2: its digits carry a geometry and stay float64."""
    return p != 2.0 and p <= HIGHEST and 4 * p == int(4 * p)


def pair_norms(addresses: Indices, like: NDArray[np.float32], width: int, powers: Floats) -> Floats:
    """The l_p distances of all pairs of float32 rows, for every p of `powers`, (P, k, k).

    Every p must have a kernel (see `has_kernel`). Distances to a row that is not finite are not finite, and
    neither is its diagonal, which is zero for all others.
    """
    if powers.size > 3 and (powers == np.floor(powers)).all():
        return _norms(addresses, like, width, EVERY + int(powers.max()), 1.0)[powers.astype(np.intp) - 1]
    return np.concatenate([_norms(addresses, like, width, int(4 * p), float(p)) for p in powers])


@kernel
def _norms_to_point(
    sum_point: Any,
    sum_pair: Any,
    addresses: Any,
    like: Any,
    width: Any,
    given: Any,
    weights: Any,
    p: Any,
    steps: Any,
    edge: Any,
    point: Any,
    total: Any,
    unit: Any,
) -> None:
    """To the point given, or where none is, to the combination by the weights."""
    rows, run = addresses.size, point.size
    places = np.empty(rows, np.intp)
    part, alone, line = np.zeros((1, rows, 1)), np.zeros(1), np.zeros(run)
    usual = column = np.int64(0)
    for start in range(0, width, run):
        length = min(run, width - start)
        vectors = vectors_of(length)
        places_of(addresses, like, start, length, edge, places)
        if given.size > 0:
            copy(given[start:], point, length)
            for c in range(length, vectors * DOUBLES):
                point[c] = 0.0
        else:
            weigh(places, vectors, weights, rows, point, like)
        for i in range(rows):
            part[0, i, 0] = 0.0
        call_point(sum_point, places, vectors, point, part, rows, p)
        for i in range(rows):
            found = part[0, i, 0]
            if 1e-200 < found < 1e200:
                if unit[i, 0] == 0:
                    total[0, i, 0] += found
                else:
                    _add(part, usual, total, unit, i, column, steps)
                continue
            copy(run_at(places[i], like, 0, vectors * DOUBLES), line, vectors * DOUBLES)
            exponent = unit[i, 0]
            for attempt in range(2):
                if attempt == 1 or found == 0.0 or exponent == LEAST:
                    largest = _largest(line.ctypes.data, point.ctypes.data, length, line, alone)
                    if not largest < np.inf:
                        total[0, i, 0] = np.nan
                    if not 0.0 < largest < np.inf:
                        break
                    exponent = max(math.frexp(largest)[1], -1000)  # beyond, its inverse would overflow
                alone[0] = 0.0
                scale = math.ldexp(1.0, -exponent)
                call_pair(sum_pair, line.ctypes.data, point.ctypes.data, vectors, alone, scale, p)
                if 1e-200 < alone[0] < 1e200:
                    part[0, i, 0] = alone[0]
                    _add(part, exponent, total, unit, i, column, steps)
                    break


_NONE = np.zeros(0)


def point_norms(addresses: Indices, like: NDArray[Any], width: int, point: Floats, p: float) -> Floats:
    """The l_p distances of rows of any size to a point, a contiguous run of float64."""
    if p == np.inf:
        return sums_with_point(addresses, like, width, point, MAXIMUM)
    return _norms_to(addresses, like, width, point, _NONE, float(p))


def combination_norms(addresses: Indices, like: NDArray[Any], width: int, weights: Floats, p: float) -> Floats:
    """The l_p distances, for a finite p, of rows of any size to ``sum_j weights_j x_j``, formed in float64.

    Rows of weight zero take no part in the combination: they are skipped, not multiplied.
    """
    return _norms_to(addresses, like, width, _NONE, weights, float(p))


def _norms_to(addresses: Indices, like: NDArray[Any], width: int, given: Floats, weights: Floats, p: float) -> Floats:
    rows, run = addresses.size, 2 * run_of(addresses.size)
    edge, total, unit = edges(rows, width, run, like.dtype), np.zeros((1, rows, 1)), np.full((rows, 1), LEAST)
    functions = point_at(term_of(p), int(like.dtype == np.float32)), pair_at(term_of(p), 0)
    _norms_to_point(*functions, addresses, like, width, given, weights, p, _steps(p), edge, np.empty(run), total, unit)
    # Of a row without terms the unit is a mere mark.
    norms: Floats = np.ldexp(total[0, :, 0] ** (1.0 / p), np.maximum(unit[:, 0], -4096).astype(np.int32))
    return norms


@kernel
def added(parts: Floats, powers: Floats) -> Floats:
    """Lengths of vectors, of any size, from those of their parts: (R, P, k) to (P, k)."""
    runs, planes, count = parts.shape
    total = np.empty((planes, count))
    for plane in range(planes):
        p = powers[plane]
        for i in range(count):
            largest = 0.0
            for run in range(runs):
                if not parts[run, plane, i] <= largest and largest < np.inf:
                    largest = parts[run, plane, i]
            length = largest
            if 0.0 < largest < np.inf and runs > 1 and p < np.inf:
                length = 0.0
                for run in range(runs):
                    share = parts[run, plane, i] / largest
                    length += share * share if p == 2.0 else share**p
                length = largest * length ** (1.0 / p)
            total[plane, i] = length
    return total
