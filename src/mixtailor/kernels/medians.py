"""The geometric median in n-space: weights, Weiszfeld's iteration, and how far ahead the last steps point."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mixtailor.kernels._numba import copy, helper, kernel
from mixtailor.kernels.selection import ranked, reading_kernel

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


@helper
def _middle(values: Array, mass: Array, total: float) -> float:
    """The value at half of the mass; the mean of two where it lies between them."""
    below, low, found = 0.0, 0.0, False
    for i in ranked(values, len(values)):
        below += mass[i]
        if not found and 2.0 * below >= total:
            low, found = values[i], True
        if 2.0 * below > total:
            return float(low / 2 + values[i] / 2)
    return low


@reading_kernel
def euclidean_median(
    distances: Array, products: Array, middle: int, mass: Array, smoothing: float, tolerance: float, limit: int
) -> tuple[Array, int, float]:
    """The geometric median's weights from the rows' distances and their inner products about the row `middle`.

    Each row counts by its mass. Starts at the mean of the rows nearest to that row, until they have more than half of
    the mass: with equal masses floor(n/2) + 1 rows. Smoothing and tolerance are in units of the median distance to the
    start. Returns the weights, the iterations taken, and how far there was still to go.
    """
    n = len(distances)
    away = np.empty(n)
    copy(distances[middle], away, n)
    start, every = np.zeros(n), np.empty(n)
    copy(mass, every, n)
    total = 0.0
    for i in range(n):
        total += mass[i]
    held = 0.0
    for i in ranked(away, n):
        start[i] = mass[i]
        held += mass[i]
        if 2.0 * held > total:
            break
    for i in range(n):
        start[i] /= held
    most = BEYOND * max(_middle(away, every, total), 1e-130)
    near = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        if away[i] <= most:
            near[count] = i
            count += 1
    inner = np.empty((count, count))
    for i in range(count):
        for j in range(count):
            inner[i, j] = products[near[i], near[j]]
    begin = np.empty(count)
    for i in range(count):
        begin[i] = start[near[i]]
    mixed = np.empty(count)
    square = _mix(inner, begin, mixed)
    gaps = np.empty(count)
    for i in range(count):
        gaps[i] = np.sqrt(max(inner[i, i] - 2.0 * mixed[i] + square, 0.0))
    own = np.empty(count)
    near_total = 0.0
    for i in range(count):
        own[i] = mass[near[i]]
        near_total += own[i]
    scale = _middle(gaps, own, near_total)
    if scale == 0.0:
        return start, 0, 0.0
    found, iterations, left = weiszfeld(inner, begin, own, smoothing * scale, tolerance * scale, limit)
    weights = np.zeros(n)
    for i in range(count):
        weights[near[i]] = found[i]
    return weights, iterations, left / scale


@kernel
def weiszfeld(
    products: Array, start: Array, mass: Array, smoothing: float, tolerance: float, limit: int
) -> tuple[Array, int, float]:
    """Weiszfeld's iteration on weights, given the rows' inner products about a common point and their masses.

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
        square = _mix(products, weights, mixed)
        value = 0.0
        norm = 0.0
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
            copy(fresh, best, n)
        if moved == 0.0 or (rate < 0.999 and max(to_go, moved) <= tolerance):
            return fresh, iteration + 1, min(to_go, moved)
        if since >= 3 and 0.3 < rate < 0.999:
            factor = rate / (1.0 - rate)
            inside = True
            for i in range(n):
                inside = inside and fresh[i] + factor * (fresh[i] - weights[i]) >= 0.0
            if inside:
                copy(fresh, saved, n)
                saved_value = value
                for i in range(n):
                    weights[i] = fresh[i] + factor * (fresh[i] - weights[i])
                jumped = True
                before = 0.0
                since = 0
                continue
        before = moved
        copy(fresh, weights, n)
    return best, limit, least
