"""Loops in n-space that are too long for an interpreter: repeated selection and Weiszfeld's iteration."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mixtailor.kernels._numba import kernel

__all__ = ["krum_picks", "weiszfeld"]

Array = npt.NDArray[Any]


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
def weiszfeld(
    products: Array, start: Array, smoothing: float, tolerance: float, limit: int
) -> tuple[Array, int, float]:
    """Weiszfeld's iteration on weights, given the rows' inner products about a common point.

    Returns the weights, the iterations taken, and how far the last step went. `tolerance` is a length.
    """
    n = len(start)
    weights = start.copy()
    moved = np.inf
    mixed = np.empty(n)
    best, best_moved = weights.copy(), np.inf
    for iteration in range(limit):
        square = 0.0
        for i in range(n):
            total = 0.0
            for j in range(n):
                if weights[j] != 0.0:
                    total += products[i, j] * weights[j]
            mixed[i] = total
            if weights[i] != 0.0:
                square += total * weights[i]
        fresh = np.empty(n)
        norm = 0.0
        for i in range(n):
            distance = np.sqrt(max(products[i, i] - 2.0 * mixed[i] + square, 0.0))
            fresh[i] = 1.0 / max(distance, smoothing)
            norm += fresh[i]
        # The length of the step, from the difference of the weights.
        moved_square = 0.0
        for i in range(n):
            fresh[i] /= norm
        for i in range(n):
            change = fresh[i] - weights[i]
            total = 0.0
            for j in range(n):
                total += products[i, j] * (fresh[j] - weights[j])
            moved_square += total * change
        moved = np.sqrt(max(moved_square, 0.0))
        weights = fresh
        if moved < best_moved:
            best, best_moved = weights.copy(), moved
        if moved <= tolerance:
            return weights, iteration + 1, moved
    return best, limit, best_moved
