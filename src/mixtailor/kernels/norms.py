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
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import copy, kernel, run_at, special_kernel
from mixtailor.kernels.blocks import EVERY, MAXIMUM, one_pair, pairs_of_rows, rows_and_point, scale_rows, weigh
from mixtailor.kernels.combinations import finite_rows
from mixtailor.kernels.distances import term_of
from mixtailor.kernels.lanes import DOUBLES
from mixtailor.kernels.tiles import aligned, empty_tile, fill, vectors_of

__all__ = ["HIGHEST", "combination_norms", "lengths", "pair_norms"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

HIGHEST = 16.0  # beyond this power, too few differences are in range
LOW, HIGH = 2.0**-80, 2.0**100
FAR = 4.0
LEAST = -(1 << 40)  # the unit of a sum without terms
PER = 2 * DOUBLES
RUN = 1024  # coordinates in a tile: 64 sums in a lane, and a dozen rows in little more than the first-level cache


@kernel
def _largest(first: int, second: int, length: int, like: Any) -> float:
    """The largest difference of two rows, zeros up to a whole register included."""
    room = np.zeros(1)
    one_pair(first, second, (length + DOUBLES - 1) // DOUBLES, room, 1.0, 0.0, like, MAXIMUM)
    return float(room[0])


@kernel
def _usual_exponent(places: Any, length: int, like: Any, before: int) -> int:
    """The power of two above the usual largest difference: the median over neighbouring rows that are not equal."""
    rows = places.size
    largest = np.empty(rows)
    count = 0
    for i in range(rows):
        found = _largest(places[i], places[(i + 1) % rows], length, like)
        if 0.0 < found < np.inf:
            largest[count] = found
            count += 1
    if count == 0:
        return before
    return int(math.frexp(np.sort(largest[:count])[count // 2])[1])


@kernel
def _sound(part: Any, i: int, j: int, first: float, last: float) -> bool:
    """Whether a tile's sums of a pair lie where float32 is good, in the lowest and in the highest power."""
    low, high = part[0, i, j], part[-1, i, j]
    return bool((low >= LOW) & (low <= first) & (high >= LOW) & (high <= last))


@kernel
def _mostly_sound(part: Any, first: float, last: float) -> bool:
    rows = part.shape[1]
    count = 0
    for i in range(rows):
        for j in range(i + 1, rows):
            count += _sound(part, i, j, first, last)
    return bool(4 * count >= rows * (rows - 1))


@kernel
def _add(sums: Any, exponent: int, total: Any, unit: Any, i: int, j: int, steps: Any) -> None:
    """Add the sums of a pair, in units of 2^exponent, to its totals; what is larger decides the unit."""
    away = exponent - unit[i, j]
    step = steps[min(abs(away), steps.size - 1)]
    factor = 1.0
    for plane in range(sums.size):
        factor *= step
        if away > 0:
            total[plane, i, j] = total[plane, i, j] * factor + sums[plane]
        else:
            total[plane, i, j] += sums[plane] * factor
    unit[i, j] = max(exponent, unit[i, j])


@kernel
def _add_tile(
    part: Any, exponent: int, total: Any, unit: Any, steps: Any, doubtful: Any, first: float, last: float
) -> int:
    """Add the sums of a tile where they are sound; how many pairs are left, and which."""
    planes, rows = part.shape[:2]
    sums = np.empty(planes)
    left = 0
    for i in range(rows):
        for j in range(i + 1, rows):
            if not _sound(part, i, j, first, last):
                doubtful[left, 0], doubtful[left, 1] = i, j
                left += 1
            elif exponent == unit[i, j]:
                for plane in range(planes):
                    total[plane, i, j] += part[plane, i, j]
            else:
                for plane in range(planes):
                    sums[plane] = part[plane, i, j]
                _add(sums, exponent, total, unit, i, j, steps)
    return left


@kernel
def _places(addresses: Any, like: Any, start: int, length: int, edge: Any, places: Any) -> None:
    """Where the rows' runs are; those that do not fill their last register are copied, with zeros behind them."""
    for i in range(addresses.size):
        if length % PER == 0:
            places[i] = addresses[i] + start * 4
        else:
            copy(run_at(addresses[i], like, start, length), edge[i], length)
            places[i] = edge[i].ctypes.data


@kernel
def _steps(p: float) -> Floats:
    """2^(-p k): with it sums in different units are added without a logarithm. Beyond, one of them is nothing."""
    return np.array([2.0 ** -(k * p) for k in range(256)] + [0.0])


@kernel
def _finish(addresses: Any, like: Any, width: int, total: Any, unit: Any, p: float, finite: bool) -> None:
    """Sums of powers to distances, on both sides of the diagonal, which shows the rows that are not finite."""
    planes, rows = total.shape[:2]
    for plane in range(planes):
        root = 1.0 / (plane + 1.0 if planes > 1 else p)
        for i in range(rows):
            for j in range(i + 1, rows):
                norm = total[plane, i, j] ** root
                if 0.0 < norm < np.inf:
                    norm = math.ldexp(norm, unit[i, j])
                total[plane, i, j] = total[plane, j, i] = norm
    if not finite:
        for i, good in enumerate(finite_rows(addresses, like, width)):
            if not good:
                total[:, i, :] = np.nan
                total[:, :, i] = np.nan


@functools.cache
def _sums(term: int) -> Callable[[Indices, Any, int, float, Floats], tuple[Floats, Indices, bool]]:
    planes = max(1, term - EVERY)

    @special_kernel(term)
    def scaled_sums_of_pairs(addresses: Any, like: Any, width: Any, p: Any, steps: Any) -> Any:
        rows = addresses.size
        tile = aligned(rows, RUN + PER, like)
        edge = np.zeros((rows, width % RUN // PER * PER + PER), np.float32)
        part = np.zeros((planes, rows, rows))
        total = np.zeros((planes, rows, rows))
        alone = np.zeros(planes)
        unit = np.full((rows, rows), LEAST)
        doubtful = np.empty((rows * rows, 2), np.intp)
        places = np.empty(rows, np.intp)
        finite = rows > 1
        shift = LEAST
        for start in range(0, width, RUN):
            length = min(RUN, width - start)
            vectors = (length + PER - 1) // PER
            # The largest sums that are sound, in the lowest and in the highest power.
            first = min(HIGH, length * (FAR if planes > 1 else FAR**p))
            last = min(HIGH, length * FAR**planes) if planes > 1 else first
            _places(addresses, like, start, length, edge, places)
            for attempt in range(2):
                if shift == LEAST or (attempt == 1 and not _mostly_sound(part, first, last)):
                    before = shift
                    shift = _usual_exponent(places, length, like, max(before, -200))
                    if shift == before:
                        break
                elif attempt == 1:
                    break
                half = shift // 2
                one, two = math.ldexp(1.0, -half), math.ldexp(1.0, half - shift)
                scale_rows(places, 0, rows, vectors, tile, tile.strides[0], one, two)
                part.fill(0.0)
                pairs_of_rows(tile, tile.strides[0], vectors, part, rows, p, tile, term)
            for pair in range(_add_tile(part, shift, total, unit, steps, doubtful, first, last)):
                i, j = doubtful[pair]
                exponent = unit[i, j]
                for attempt in range(2):
                    if attempt == 1 or part[0, i, j] == 0.0 or exponent == LEAST:
                        largest = _largest(places[i], places[j], length, like)
                        if not largest < np.inf:
                            finite = False
                        if not 0.0 < largest < np.inf:
                            break
                        exponent = math.frexp(largest)[1]
                    alone.fill(0.0)
                    scale = math.ldexp(1.0, -exponent)
                    one_pair(places[i], places[j], 2 * vectors, alone, scale, p, like, term)
                    if 1e-200 < alone[0] < 1e200 and 1e-200 < alone[-1] < 1e200:
                        _add(alone, exponent, total, unit, i, j, steps)
                        break
        # The edge is named here so that it lives as long as its addresses are used.
        return total, unit, finite and edge.size >= 0

    return scaled_sums_of_pairs


def _norms(addresses: Indices, like: NDArray[np.float32], width: int, term: int, p: float) -> Floats:
    # What does not depend on the term is compiled once, and not with each.
    total, unit, finite = _sums(term)(addresses, like, width, p, _steps(p))
    _finish(addresses, like, width, total, unit, p, finite)
    return total


def pair_norms(addresses: Indices, like: NDArray[np.float32], width: int, powers: Floats) -> Floats:
    """The l_p distances of all pairs of float32 rows, for every p of `powers`, (P, k, k).

    Every p is a multiple of 1/4 and at most `HIGHEST`. Distances to a row that is not finite are not finite, and
    neither is its diagonal, which is zero for all others.
    """
    if powers.size > 3 and (powers == np.floor(powers)).all():
        return _norms(addresses, like, width, EVERY + int(powers.max()), 1.0)[powers.astype(np.intp) - 1]
    return np.concatenate([_norms(addresses, like, width, int(4 * p), float(p)) for p in powers])


@functools.cache
def _to_combination(term: int) -> Callable[[Indices, Any, int, Floats, float], Floats]:
    @special_kernel(term)
    def norms_to_combination(addresses: Any, like: Any, width: Any, weights: Any, p: Any) -> Any:
        rows = addresses.size
        tile = empty_tile(rows)
        run = tile.shape[1] - 8
        point = np.empty(run)
        part, alone = np.zeros(rows), np.zeros(1)
        total = np.zeros((1, rows, 1))
        unit = np.full((rows, 1), LEAST)
        steps = _steps(p)
        for start in range(0, width, run):
            length = min(run, width - start)
            vectors = vectors_of(length)
            fill(addresses, like, start, length, tile)
            weigh(tile, tile.strides[0], vectors, weights, rows, point)
            part.fill(0.0)
            rows_and_point(tile, tile.strides[0], vectors, point, part, rows, p, term)
            for i in range(rows):
                if 1e-200 < part[i] < 1e200:
                    if unit[i, 0] == 0:
                        total[0, i, 0] += part[i]
                    else:
                        alone[0] = part[i]
                        _add(alone, 0, total, unit, i, 0, steps)
                    continue
                exponent = unit[i, 0]
                for attempt in range(2):
                    if attempt == 1 or part[i] == 0.0 or exponent == LEAST:
                        largest = _largest(tile[i].ctypes.data, point.ctypes.data, length, tile)
                        if not largest < np.inf:
                            total[0, i, 0] = np.nan
                        if not 0.0 < largest < np.inf:
                            break
                        exponent = math.frexp(largest)[1]
                    alone[0] = 0.0
                    scale = math.ldexp(1.0, -exponent)
                    one_pair(tile[i].ctypes.data, point.ctypes.data, vectors, alone, scale, p, tile, term)
                    if 1e-200 < alone[0] < 1e200:
                        _add(alone, exponent, total, unit, i, 0, steps)
                        break
        answer = np.empty(rows)
        for i in range(rows):
            answer[i] = total[0, i, 0] ** (1.0 / p)
            if answer[i] > 0.0:
                answer[i] = math.ldexp(answer[i], unit[i, 0])
        return answer

    return norms_to_combination


def combination_norms(addresses: Indices, like: NDArray[Any], width: int, weights: Floats, p: float) -> Floats:
    """The l_p distances, for a finite p, of float32 rows of any size to ``sum_j weights_j x_j``, formed in float64.

    Rows of weight zero take no part in the combination: they are skipped, not multiplied.
    """
    return _to_combination(term_of(p))(addresses, like, width, weights, float(p))


@kernel
def lengths(parts: Floats, powers: Floats) -> Floats:
    """The l_p lengths of vectors of any size from those of their parts, (R, P, k) to (P, k)."""
    runs, planes, count = parts.shape
    answer = np.empty((planes, count))
    for plane in range(planes):
        p = powers[plane]
        for i in range(count):
            largest = 0.0
            for run in range(runs):
                if not parts[run, plane, i] <= largest and largest < np.inf:
                    largest = parts[run, plane, i]
            total = largest
            if 0.0 < largest < np.inf and runs > 1:
                total = 0.0
                for run in range(runs):
                    total += (parts[run, plane, i] / largest) ** p
                total = largest * total ** (1.0 / p)
            answer[plane, i] = total
    return answer
