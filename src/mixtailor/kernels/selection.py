"""Loops in n-space that are too long for an interpreter, or too short for a dozen calls of numpy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mixtailor.kernels._numba import kernel

__all__ = [
    "equal_pairs",
    "euclidean_median",
    "in_range",
    "krum_picks",
    "median",
    "medoid",
    "products_about_medoid",
    "same_rows",
    "weiszfeld",
]

Array = npt.NDArray[Any]


@kernel
def equal_pairs(sums: Array, exact: Array, equal: Array) -> None:
    """Mark the pairs of rows whose sums are zero, (P, n, n), in a plane where that says that the rows are equal."""
    for plane in range(len(exact)):
        if exact[plane]:
            for i in range(sums.shape[1]):
                for j in range(sums.shape[2]):
                    equal[i, j] = equal[i, j] or sums[plane, i, j] == 0.0


@kernel
def in_range(sums: Array, powers: Array, least: float, equal: Array) -> bool:
    """Whether sums of powers of pairs, (P, n, n), are finite, and at least `least` where rows are not equal."""
    for plane in range(len(powers)):
        floor = 0.0 if powers[plane] == np.inf else least
        for i in range(sums.shape[1]):
            for j in range(i):
                if not (floor <= sums[plane, i, j] < np.inf or equal[i, j]):
                    return False
    return True


@kernel
def same_rows(matrix: Array) -> Array:
    """Which rows of a small matrix are equal, (n, n)."""
    n = len(matrix)
    same = np.ones((n, n), np.bool_)
    for i in range(n):
        for j in range(i):
            for k in range(matrix.shape[1]):
                if matrix[i, k] != matrix[j, k]:
                    same[i, j] = same[j, i] = False
                    break
    return same


@kernel
def median(values: Array) -> float:
    """The median of a few numbers; halves cannot overflow."""
    ordered = np.sort(values)
    return float(ordered[(len(values) - 1) // 2] / 2 + ordered[len(values) // 2] / 2)


@kernel
def medoid(distances: Array) -> int:
    """The row whose floor(n/2)-th nearest other row is closest: not to be moved by fewer than half of the rows."""
    rank = len(distances) // 2
    middle, least = 0, np.inf
    for i in range(len(distances)):
        reach = np.partition(distances[i].copy(), rank)[rank]
        if reach < least:
            middle, least = i, reach
    return middle


@kernel
def products_about_medoid(distances: Array, rows: int, far: float, most: float) -> tuple[int, Array, Array]:
    """The medoid of the first rows, inner products of all about it, from squares, and who is `far` medians away.

    Where somebody is, the products have lost the digits of the others. Distances count as no more than `most`.
    """
    n = len(distances)
    middle = medoid(distances[:rows, :rows])
    away = np.minimum(distances[middle], most)
    beyond = away > far * median(away[:rows])
    products = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            apart = min(distances[i, j], most)
            products[i, j] = (away[i] * away[i] + away[j] * away[j] - apart * apart) / 2
    return middle, products, beyond


@kernel
def krum_picks(distances: Array, f: int, power: float, count: int) -> Array:
    """Krum again and again on the rows still left: the `count` rows it picks, in order.

    Each score is the sum of distances, to a power, to the ``left - f - 2`` nearest others, at least one. With one
    neighbour, rows that are each other's nearest have equal scores: the sum over the further rows decides then, and
    only if that is equal too, the lower row. Rows of the distance matrix are sorted once; what has left is skipped.
    """
    n = distances.shape[0]
    order = np.empty((n, n), np.int64)
    for i in range(n):
        own = distances[i].copy()
        own[i] = -1.0
        order[i] = np.argsort(own, kind="mergesort")
    gone = np.zeros(n, np.bool_)
    picks = np.empty(count, np.int64)
    for step in range(count):
        neighbours = max(1, n - step - f - 2)
        best = -1
        least = np.inf
        least_rest = np.inf
        for i in range(n):
            if gone[i]:
                continue
            score = 0.0
            rest = 0.0
            found = 0
            for k in range(1, n):
                j = order[i, k]
                if gone[j]:
                    continue
                if found < neighbours:
                    score += min(distances[i, j], 1e150) ** power
                else:
                    rest += min(distances[i, j], 1e150) ** power
                found += 1
            if best < 0 or score < least or (score == least and rest < least_rest):
                best, least, least_rest = i, score, rest
        picks[step] = best
        gone[best] = True
    return picks


@kernel
def euclidean_median(
    distances: Array, products: Array, middle: int, smoothing: float, tolerance: float, beyond: float, limit: int
) -> tuple[Array, int, float]:
    """The geometric median's weights from the rows' distances and their inner products about the row `middle`.

    Starts at the mean of the floor(n/2) + 1 rows nearest to that row; smoothing and tolerance are in units of the
    median distance to the start. Rows that are `beyond` so many median distances have no weight. Returns the weights,
    the iterations taken, and how far there was still to go.
    """
    n = len(distances)
    away = distances[middle]
    start = np.zeros(n)
    start[np.argsort(away, kind="mergesort")[: n // 2 + 1]] = 1.0 / (n // 2 + 1)
    near = np.flatnonzero(away <= beyond * max(median(away), 1e-160))
    count = len(near)
    inner = np.empty((count, count))
    for i in range(count):
        for j in range(count):
            inner[i, j] = products[near[i], near[j]]
    begin = start[near]
    mixed = np.empty(count)
    square = 0.0
    for i in range(count):
        total = 0.0
        for j in range(count):
            total += inner[i, j] * begin[j]
        mixed[i] = total
        square += total * begin[i]
    gaps = np.empty(count)
    for i in range(count):
        gaps[i] = np.sqrt(max(inner[i, i] - 2.0 * mixed[i] + square, 0.0))
    scale = median(gaps)
    if scale == 0.0:
        return start, 0, 0.0
    found, iterations, left = weiszfeld(inner, begin, smoothing * scale, tolerance * scale, limit)
    weights = np.zeros(n)
    weights[near] = found
    return weights, iterations, left / scale


@kernel
def weiszfeld(
    products: Array, start: Array, smoothing: float, tolerance: float, limit: int
) -> tuple[Array, int, float]:
    """Weiszfeld's iteration on weights, given the rows' inner products about a common point.

    A step may be short because the end is near or because convergence is slow (at a row, or at rows that are equal), so
    what counts is how far there is still to go: with steps that shrink by a rate r, r / (1 - r) of the last one. The
    same guess, taken as a jump every few steps and taken back where the sum of distances grew, saves most of them.

    Returns the weights, the iterations taken, and how far there was still to go. `tolerance` is a length.
    """
    n = len(start)
    weights = start.copy()
    fresh = np.empty(n)
    mixed = np.empty(n)
    best = start.copy()
    least = np.inf
    saved = start.copy()
    saved_value = np.inf
    before = 0.0
    jumped = False
    since = 0
    for iteration in range(limit):
        square = 0.0
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += products[i, j] * weights[j]
            mixed[i] = total
            square += total * weights[i]
        value = 0.0
        norm = 0.0
        for i in range(n):
            distance = np.sqrt(max(products[i, i] - 2.0 * mixed[i] + square, 0.0))
            value += distance if distance > smoothing else 0.5 * (distance * distance / smoothing + smoothing)
            fresh[i] = 1.0 / max(distance, smoothing)
            norm += fresh[i]
        if jumped and value > saved_value:
            weights[:] = saved
            jumped = False
            before = 0.0
            since = 0
            continue
        jumped = False
        moved_square = 0.0
        for i in range(n):
            fresh[i] /= norm
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += products[i, j] * (fresh[j] - weights[j])
            moved_square += total * (fresh[i] - weights[i])
        moved = np.sqrt(max(moved_square, 0.0))
        rate = moved / before if before > 0.0 else 1.0
        to_go = moved * rate / (1.0 - rate) if rate < 0.999 else 1e3 * moved
        since += 1
        if to_go < least:
            least = to_go
            best[:] = fresh
        if moved == 0.0 or (rate < 0.999 and max(to_go, moved) <= tolerance):
            return fresh, iteration + 1, min(to_go, moved)
        if since >= 3 and 0.3 < rate < 0.999:
            factor = rate / (1.0 - rate)
            inside = True
            for i in range(n):
                inside = inside and fresh[i] + factor * (fresh[i] - weights[i]) >= 0.0
            if inside:
                saved[:] = fresh
                saved_value = value
                for i in range(n):
                    weights[i] = fresh[i] + factor * (fresh[i] - weights[i])
                jumped = True
                before = 0.0
                since = 0
                continue
        before = moved
        weights[:] = fresh
    return best, limit, least
