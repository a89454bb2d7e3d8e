"""Loops in n-space that are too long for an interpreter, or too short for a dozen calls of numpy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mixtailor.kernels._numba import copy, helper, kernel

__all__ = [
    "distinct",
    "have_squares",
    "in_range",
    "krum_picks",
    "median",
    "medoid",
    "products_about_medoid",
    "ranked",
]

Array = npt.NDArray[Any]


@kernel
def in_range(sums: Array, powers: Array, exact: Array, least: float, equal: Array) -> bool:
    """Whether sums of powers of pairs, (P, n, n), are finite, and at least `least` where rows are not equal.

    Where a plane is `exact`, a sum of zero says that two rows are equal; they are marked, and each row with itself.
    """
    planes, n = sums.shape[:2]
    for plane in range(planes):
        for i in range(n):
            for j in range(n):
                equal[i, j] = equal[i, j] or i == j or (exact[plane] and sums[plane, i, j] == 0.0)
    for plane in range(planes):
        floor = 0.0 if powers[plane] == np.inf else least
        for i in range(n):
            for j in range(i + 1):  # the diagonal shows rows that are not finite
                found = sums[plane, i, j]
                if not (found < np.inf and (found >= floor or equal[i, j])):
                    return False
    return True


@kernel
def distinct(matrix: Array) -> tuple[Array, Array]:
    """Where the rows of a small matrix are that equal no earlier one, and for each row which of these it equals."""
    n = len(matrix)
    places, alike = np.empty(n, np.int64), np.empty(n, np.int64)
    count = 0
    for i in range(n):
        alike[i] = -1
        for k in range(count):
            other, column = places[k], 0
            while column < matrix.shape[1] and matrix[i, column] == matrix[other, column]:
                column += 1
            if column == matrix.shape[1]:
                alike[i] = k
                break
        if alike[i] < 0:
            alike[i] = count
            places[count] = i
            count += 1
    return places[:count], alike


@kernel
def ranked(values: Array, count: int) -> Array:
    """The places of the `count` smallest values, in order; of equal ones the first comes first.

    By a heap of places. numpy's own sorting and partitioning, compiled, would take longer than all other kernels.
    """
    n = len(values)
    heap = np.empty(n, np.int64)
    found = np.empty(count, np.int64)
    for i in range(n):
        heap[i] = i
    for turn in range(n // 2 + count):
        if turn < n // 2:  # first every inner node is put in its place, the last one first
            top, size = n // 2 - 1 - turn, n
        else:  # then the least leaves, and the last leaf begins again from the top
            rank = turn - n // 2
            size = n - 1 - rank
            top = 0
            found[rank] = heap[0]
            heap[0] = heap[size]
        place = heap[top]
        own = values[place]
        while 2 * top + 1 < size:
            child = 2 * top + 1
            least = values[heap[child]]
            if child + 1 < size:
                other = values[heap[child + 1]]
                if other < least or (other == least and heap[child + 1] < heap[child]):
                    child, least = child + 1, other
            if own < least or (own == least and place < heap[child]):
                break
            heap[top] = heap[child]
            top = child
        heap[top] = place
    return found


@kernel
def median(values: Array) -> float:
    """The median of a few numbers; halves cannot overflow."""
    n = len(values)
    order = ranked(values, n // 2 + 1)
    return float(values[order[(n - 1) // 2]] / 2 + values[order[n // 2]] / 2)


@helper
def _middle(distances: Array, rows: int) -> int:
    """The medoid of the first rows."""
    rank = rows // 2
    middle, least = 0, np.inf
    own = np.empty(rows)
    for i in range(rows):
        copy(distances[i], own, rows)
        reach = own[ranked(own, rank + 1)[rank]]
        if reach < least:
            middle, least = i, reach
    return middle


@kernel
def medoid(distances: Array) -> int:
    """The row whose floor(n/2)-th nearest other row is closest: not to be moved by fewer than half of the rows."""
    return _middle(distances, len(distances))


@kernel
def have_squares(lengths: Array, most: float) -> bool:
    """Whether all lengths that are not zero are between 1 / most and most."""
    sound = True
    for i in range(len(lengths)):
        sound = sound and (lengths[i] == 0.0 or 1.0 / most < lengths[i] < most)
    return sound


@kernel
def products_about_medoid(distances: Array, rows: int, far: float, most: float) -> tuple[int, Array, Array]:
    """The medoid of the first rows, inner products of all about it, from squares, and who is `far` medians away.

    Where somebody is, the products have lost the digits of the others. Distances count as no more than `most`.
    """
    n = len(distances)
    middle = _middle(distances, rows)
    away = np.empty(n)
    for i in range(n):
        away[i] = min(distances[middle, i], most)
    limit = far * median(away[:rows])
    beyond = np.empty(n, np.bool_)
    products = np.empty((n, n))
    for i in range(n):
        beyond[i] = away[i] > limit
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
    own = np.empty(n)
    for i in range(n):
        for j in range(n):
            own[j] = distances[i, j] if i != j else -1.0
        copy(ranked(own, n), order[i], n)
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
