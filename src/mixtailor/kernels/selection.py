"""Choices in n-space, from a matrix of distances: medoids, nearest rows, scores, equal rows.

What numpy does in a few calls is left to numpy: a kernel for it would be compiled for longer than it ever saves.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mixtailor.kernels._numba import helper, kernel

__all__ = [
    "by_neighbours",
    "closest",
    "distinct",
    "krum_picks",
    "median",
    "medoid",
    "nearest",
    "products_about_medoid",
    "ranked",
]

Array = npt.NDArray[Any]

_LONG = 1024  # bytes of a row that are compared as they are; of longer ones a digest is kept


def by_neighbours(distances: Array, neighbours: int, power: int = 2) -> tuple[Array, Array]:
    """The rows in order of their scores, of equal ones the lower index first, and the scores.

    A score is the sum of a row's distances, to a power, to its nearest other rows. It is summed from the smallest up,
    so that one far neighbour does not swallow the digits of the near ones.
    """
    others = np.sort(distances, axis=1)[:, 1 : neighbours + 1]  # without the row itself, whose distance is zero
    scores: Array = (others**power).sum(axis=1)
    return np.argsort(scores, kind="stable"), scores


def closest(scores: Array, count: int) -> Array:
    """The rows with the lowest scores, of equal ones those of lower index, in order of index."""
    return np.sort(np.argsort(scores, kind="stable")[:count])


def nearest(distances: Array, count: int) -> Array:
    """For each row the `count` rows nearest to it, itself first; ties to the lower index: (n, count)."""
    own = distances.copy()
    own.flat[:: len(own) + 1] = -1.0
    return np.argsort(own, axis=1, kind="stable")[:, :count]


def distinct(matrix: Array) -> tuple[Array, Array]:
    """Where the rows of a small matrix are that equal no earlier one, and for each row which of these it equals.

    Examples
    --------
    >>> distinct(np.array([[1.0, 0.0], [0.5, 0.5], [1.0, -0.0]]))
    (array([0, 1]), array([0, 1, 0]))
    """
    known: dict[bytes, int] = {}
    same = np.array([known.setdefault(key, len(known)) for key in _keys(matrix)], np.int64)
    places = np.empty(len(known), np.int64)
    places[same[::-1]] = np.arange(len(matrix) - 1, -1, -1)  # of equal rows the first is written last
    return places, same


def _keys(matrix: Array) -> Iterator[bytes]:
    """The same for rows that are equal, -0 and 0 included; short also where rows are long."""
    size = matrix.shape[1] * matrix.itemsize
    if size > _LONG:
        return (hashlib.sha256(row + 0.0).digest() for row in matrix)
    written = (matrix + 0.0).tobytes()
    return (written[place : place + size] for place in range(0, len(matrix) * size, max(1, size)))


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


def median(values: Array) -> float:
    """The median of a few numbers; halves cannot overflow."""
    ordered, n = np.sort(values), len(values)
    return float(ordered[(n - 1) // 2] / 2 + ordered[n // 2] / 2)


def medoid(distances: Array) -> int:
    """The row whose floor(n/2)-th nearest other row is closest: not to be moved by fewer than half of the rows."""
    rank = len(distances) // 2
    return int(np.partition(distances, rank)[:, rank].argmin())


def products_about_medoid(distances: Array, rows: int, far: float) -> tuple[int, Array, Array]:
    """The medoid of the first rows, inner products of all about it, from squares, and which are `far` medians away.

    Where some are, the products have lost the digits of the others.
    """
    middle = medoid(distances if rows == len(distances) else distances[:rows, :rows])
    away, squares = distances[middle], distances * distances
    products = squares[middle, :, None] + squares[middle]
    products -= squares
    products /= 2
    return middle, products, away > far * median(away[:rows])


@helper
def _nearer(distances: Array, order: Array, gone: Array, i: int, j: int, skip: int) -> bool:
    """Whether the neighbours of row i beyond the first `skip`, one after the other, are nearer than those of row j."""
    n = distances.shape[0]
    a = b = 0  # places in the two orders; each row itself comes first
    for rank in range(n - 1):
        a += 1
        while a < n and gone[order[i, a]]:
            a += 1
        b += 1
        while b < n and gone[order[j, b]]:
            b += 1
        if a == n or b == n:
            return False
        one, other = distances[i, order[i, a]], distances[j, order[j, b]]
        if rank >= skip and one != other:
            return bool(one < other)
    return False


@helper
def _score(powers: Array, order: Array, gone: Array, i: int, last: int) -> float:
    """The sum of a row's powers over the neighbours that are left, up to the place `last` of its order."""
    score = 0.0
    for k in range(1, last + 1):
        if not gone[order[i, k]]:
            score += powers[i, order[i, k]]
    return score


@kernel
def _picks(distances: Array, powers: Array, order: Array, f: int, count: int) -> Array:
    n = distances.shape[0]
    rank = np.empty((n, n), np.int32)
    for i in range(n):
        for k in range(n):
            rank[i, order[i, k]] = k
    gone = np.zeros(n, np.bool_)
    picks = np.empty(count, np.int64)
    scores, wrong = np.empty(n), np.zeros(n)
    last = np.empty(n, np.int64)  # the place of the farthest neighbour that counts
    neighbours = max(1, n - f - 2)
    for i in range(n):
        last[i] = neighbours
        scores[i] = _score(powers, order, gone, i, neighbours)
    for step in range(count):
        least = np.inf
        for i in range(n):
            if not gone[i]:
                least = min(least, scores[i] + wrong[i])
        best: Any = np.int64(-1)  # a plain -1 is a type of its own, and what gets it would be compiled twice
        for i in range(n):
            if gone[i] or scores[i] - wrong[i] > least:
                continue
            if wrong[i] > 0.0:
                scores[i], wrong[i] = _score(powers, order, gone, i, last[i]), 0.0
            if (
                best < 0
                or scores[i] < scores[best]
                or (scores[i] == scores[best] and _nearer(distances, order, gone, i, best, neighbours))
            ):
                best = i
        picks[step] = best
        gone[best] = True
        fewer = max(1, n - step - 1 - f - 2) < neighbours
        neighbours = max(1, n - step - 1 - f - 2)
        for i in range(n):
            if gone[i]:
                continue
            counted = rank[i, best] <= last[i]
            if fewer:
                # Of one neighbour less, the one picked is it, or else the farthest.
                if wrong[i] == 0.0:
                    wrong[i] = 4.0 * n * 2.0**-53 * scores[i]
                scores[i] -= powers[i, best] if counted else powers[i, order[i, last[i]]]
                if not counted:
                    last[i] -= 1
            elif counted:
                while last[i] < n - 1 and gone[order[i, last[i]]]:
                    last[i] += 1
                scores[i], wrong[i] = _score(powers, order, gone, i, last[i]), 0.0
            while last[i] > 1 and gone[order[i, last[i]]]:
                last[i] -= 1
    return picks


def krum_picks(distances: Array, f: int, power: float, count: int) -> Array:
    """Krum again and again on the rows still left: the `count` rows it picks, in order.

    Each score is the sum of distances, to a power, to the ``left - f - 2`` nearest others, at least one. With one
    neighbour, rows that are each other's nearest have equal scores: the further neighbours, compared one after another,
    decide then, and only if they are equal too, the lower row. (A sum over the further neighbours would depend on the
    order of the rows where one of them is far away.)

    Rows of the distance matrix are sorted once. A pick takes one neighbour off every score, which is known up to
    rounding by that; the scores that rounding could make the least are summed again. So a pick costs O(n), and all of
    them O(n^2), unless many scores are nearly equal.
    """
    own = distances.copy()
    own.flat[:: len(own) + 1] = -1.0
    order = np.argsort(own, axis=1).astype(np.int32)
    powers = distances * distances if power == 2.0 else distances**power
    return _picks(distances, powers, order, f, count)
