"""The geometric median in n-space: weights, Weiszfeld's iteration, and how far ahead the last steps point."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mixtailor.kernels._numba import copy, helper, kernel
from mixtailor.kernels.weighted import at_half

__all__ = ["euclidean_median", "extrapolated", "inverse_weights", "weiszfeld"]

Array = npt.NDArray[Any]


# Median distances: a row that is farther away has a weight that is lost in rounding, so it is zero.
BEYOND = 1e120


@kernel
def inverse_weights(distances: Array, scale: float, smoothing: float) -> Array:
    """Weights of sum one, inverse to distances, which count as `smoothing` scales at least."""
    weights = np.zeros(len(distances))
    total = 0.0
    for i in range(len(distances)):
        share = distances[i] / scale
        if share <= BEYOND:
            weights[i] = 1.0 / max(share, smoothing)
            total += weights[i]
    for i in range(len(distances)):
        weights[i] /= total
    return weights


@kernel
def extrapolated(tried: Array, aims: Array) -> Array:
    """The combination of past passes whose steps cancel best; the last aim where that leaves the simplex.

    Rows of `tried` are weights, those of `aims` what a step made of them. Steps are compared with the last one by least
    squares, orthogonalised one by one, the longest remainder first; what is as good as a combination of others is left
    out.
    """
    count, n = len(tried) - 1, tried.shape[1]
    last, left = np.empty(n), np.empty(n)
    columns = np.empty((count, n))
    for i in range(n):
        last[i] = aims[count, i]
        left[i] = tried[count, i] - last[i]
        for k in range(count):
            columns[k, i] = aims[k, i] - tried[k, i] + left[i]
    order = np.zeros(count, np.int64)
    shares = np.zeros(count)
    upper = np.zeros((count, count))
    longest, used = 0.0, 0
    for step in range(count):
        length = 0.0
        for k in range(step, count):
            own = 0.0
            for i in range(n):
                own += columns[k, i] ** 2
            if own > length:
                length, order[step] = own, k
        length = np.sqrt(length)
        longest = max(longest, length)
        if length <= 1e-10 * longest:
            break
        pick = order[step]
        for i in range(n):
            columns[pick, i], columns[step, i] = columns[step, i], columns[pick, i] / length
        for k in range(step):
            upper[k, pick], upper[k, step] = upper[k, step], upper[k, pick]
        upper[step, step] = length
        used += 1
        for i in range(n):
            shares[step] += columns[step, i] * left[i]
        for k in range(step + 1, count):
            for i in range(n):
                upper[step, k] += columns[step, i] * columns[k, i]
            for i in range(n):
                columns[k, i] -= upper[step, k] * columns[step, i]
    for step in range(used - 1, -1, -1):
        for k in range(step + 1, used):
            shares[step] -= upper[step, k] * shares[k]
        shares[step] /= upper[step, step]
    for step in range(used - 1, -1, -1):  # back to the order that they came in
        shares[step], shares[order[step]] = shares[order[step]], shares[step]
    guess = np.empty(n)
    inside = True
    for i in range(n):
        guess[i] = last[i]
        for k in range(count):
            guess[i] += shares[k] * (aims[k, i] - last[i])
        inside = inside and guess[i] >= 0.0
    return guess if inside else last


@helper
def _mix(products: Array, weights: Array, mixed: Array) -> float:
    """The rows' inner products with their combination, into `mixed`, and that of the combination with itself."""
    square = 0.0
    for i in range(len(weights)):
        total = 0.0
        for j in range(len(weights)):
            total += products[i, j] * weights[j]
        mixed[i] = total
        square += total * weights[i]
    return square


def euclidean_median(
    distances: Array, products: Array, middle: int, mass: Array, smoothing: float, tolerance: float, limit: int
) -> tuple[Array, int, float]:
    """The geometric median's weights from the rows' distances and their inner products about the row `middle`.

    Each row counts by its mass. Starts at the mean of the rows nearest to that row, until they have more than half of
    the mass: with equal masses floor(n/2) + 1 rows. Smoothing and tolerance are in units of the median distance to the
    start. Returns the weights, the iterations taken, and how far there was still to go.
    """
    away = distances[middle]
    order = away.argsort(kind="stable")
    held = mass[order].cumsum()
    first = order[: int(held.searchsorted(held[-1] / 2, "right")) + 1]
    start = np.zeros(len(away))
    start[first] = mass[first] / held[len(first) - 1]
    most = BEYOND * max(at_half(away, order, held), 1e-130)
    near = slice(None) if away[order[-1]] <= most else np.nonzero(away <= most)[0]
    # One kernel for all: to numba, write-protected and strided arrays are types of their own.
    inner, own = (array if array.flags.carray else array.copy() for array in (products[near][:, near], mass[near]))
    work = np.empty((6, len(own)))
    work[0] = start[near]
    iterations, left = weiszfeld(inner, own, smoothing, tolerance, limit, work)
    start[near] = work[0]
    return start, iterations, left


@helper
def _middle(values: Array, mass: Array) -> float:
    """The value at half of the mass; the mean of two where it lies between them. By counting: sorting would be compiled
    for longer than all else here."""
    total = 0.0
    for i in range(len(values)):
        total += mass[i]
    low = high = np.inf
    for i in range(len(values)):
        below = 0.0
        for j in range(len(values)):
            if values[j] <= values[i]:
                below += mass[j]
        if 2.0 * below >= total:
            low = min(low, values[i])
        if 2.0 * below > total:
            high = min(high, values[i])
    return low / 2 + high / 2


@kernel
def weiszfeld(
    products: Array, mass: Array, smoothing: float, tolerance: float, limit: int, work: Array
) -> tuple[int, float]:
    """Weiszfeld's iteration on weights, given the rows' inner products about a common point and their masses.

    A step may be short because the end is near or because convergence is slow (at a row, or at rows that are equal), so
    what counts is how far there is still to go: with steps that shrink by a rate r, r / (1 - r) of the last one. The
    same guess, taken as a jump every few steps and taken back where the sum of distances grew, saves most of them.

    The first row of `work`, which is room for six, has the weights to start from, and the result. Smoothing and
    tolerance are in units of the median distance to the start. Returns the iterations taken, and how far there was
    still to go.
    """
    n = len(mass)
    best, weights, fresh, mixed, saved, step = work[0], work[1], work[2], work[3], work[4], work[5]
    square = _mix(products, best, mixed)
    for i in range(n):
        weights[i] = saved[i] = best[i]
        fresh[i] = np.sqrt(max(products[i, i] - 2.0 * mixed[i] + square, 0.0))
    scale = _middle(fresh, mass)
    if scale == 0.0:
        return 0, 0.0
    smoothing *= scale
    tolerance *= scale
    least = saved_value = np.inf
    before = 0.0
    jumped = False
    since = 0
    for iteration in range(limit):
        square = _mix(products, weights, mixed)
        value = norm = 0.0
        for i in range(n):
            distance = np.sqrt(max(products[i, i] - 2.0 * mixed[i] + square, 0.0))
            smooth = distance if distance > smoothing else 0.5 * (distance * distance / smoothing + smoothing)
            value += mass[i] * smooth
            fresh[i] = mass[i] / max(distance, smoothing)
            norm += fresh[i]
        if jumped and value > saved_value:
            copy(saved, weights, n)
            jumped = False
            before = 0.0
            since = 0
            continue
        jumped = False
        for i in range(n):
            fresh[i] /= norm
            step[i] = fresh[i] - weights[i]
        moved = np.sqrt(max(_mix(products, step, mixed), 0.0))
        rate = moved / before if before > 0.0 else 1.0
        to_go = moved * rate / (1.0 - rate) if rate < 0.999 else 1e3 * moved
        since += 1
        # Steps as short as rounding makes them no longer shrink.
        done = moved <= 1e-12 * scale or (rate < 0.999 and max(to_go, moved) <= tolerance)
        if to_go < least or done:
            least = to_go
            copy(fresh, best, n)
        if done:
            return iteration + 1, min(to_go, moved) / scale
        factor = 0.0
        if since >= 3 and 0.3 < rate < 0.999:
            factor = rate / (1.0 - rate)
            for i in range(n):
                if fresh[i] + factor * step[i] < 0.0:
                    factor = 0.0
                    break
        before = moved
        if factor > 0.0:
            copy(fresh, saved, n)
            saved_value, before, since, jumped = value, 0.0, 0, True
        for i in range(n):
            weights[i] = fresh[i] + factor * step[i]
    return limit, least / scale
