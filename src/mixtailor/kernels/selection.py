"""Loops in n-space that are too long for an interpreter, or too short for a dozen calls of numpy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mixtailor.kernels._numba import copy, kernel

__all__ = [
    "equal_pairs",
    "in_range",
    "krum_picks",
    "median",
    "medoid",
    "products_about_medoid",
    "same_rows",
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
        copy(np.argsort(own, kind="mergesort"), order[i], n)
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
