"""Columnwise statistics and choices in n-space in which each row counts by its mass, as so many equal rows would."""

from typing import Any

import numpy as np

from mixtailor._types import Floats, Integers
from mixtailor.kernels._numba import kernel, run_at
from mixtailor.kernels.selection import ranked

__all__ = ["at_half", "kept_by_rank", "median", "median_of", "medoid", "reach", "trimmed_mean"]


@kernel
def median(addresses: Any, like: Any, width: int, mass: Any, out: Any) -> bool:
    """The value at half of the mass in every column, the mean of two where it lies between them; whether all entries
    are finite."""
    n = addresses.size
    values = np.empty(n)
    total = 0.0
    for j in range(n):
        total += mass[j]
    fault = 0.0
    for c in range(width):
        for j in range(n):
            values[j] = run_at(addresses[j], like, c, 1)[0]
            fault += 0.0 * values[j]
        below, low, found = 0.0, 0.0, False
        for j in ranked(values, n):
            below += mass[j]
            if not found and 2.0 * below >= total:
                low, found = values[j], True
            if 2.0 * below > total:
                out[c] = low / 2 + values[j] / 2 if low != values[j] else low
                break
    return bool(fault == 0.0)


@kernel
def trimmed_mean(addresses: Any, like: Any, width: int, mass: Any, trim: float, out: Any) -> bool:
    """The mean of every column without the `trim` of mass that is smallest and largest; whether all entries are finite.

    A row that lies across the edge counts with the part of its mass that is inside.
    """
    n = addresses.size
    values = np.empty(n)
    total = 0.0
    for j in range(n):
        total += mass[j]
    fault = 0.0
    for c in range(width):
        for j in range(n):
            values[j] = run_at(addresses[j], like, c, 1)[0]
            fault += 0.0 * values[j]
        below, mean, least, most, first = 0.0, 0.0, 0.0, 0.0, True
        for j in ranked(values, n):
            start = max(below, trim)
            below += mass[j]
            part = min(below, total - trim) - start
            if part > 0.0:
                mean += part / (total - 2.0 * trim) * values[j]  # shares of one: no sum can overflow
                most = values[j]
                if first:
                    least, first = values[j], False
        out[c] = min(max(mean, least), most)  # rounding must not leave the values
    return bool(fault == 0.0)


def kept_by_rank(order: Integers, mass: Floats, wanted: float) -> Floats:
    """The mass of each row that is taken, in this order, until `wanted` is reached; the last row counts in part.

    Examples
    --------
    >>> kept_by_rank(np.array([2, 0, 1]), np.array([2.0, 5.0, 1.0]), 4.0)
    array([2., 1., 1.])
    """
    below = np.cumsum(mass[order])
    kept = np.zeros(len(mass))
    kept[order] = np.clip(wanted - (below - mass[order]), 0.0, mass[order])
    return kept


def median_of(values: Floats, mass: Floats) -> float:
    """The value at half of the mass; the mean of two where it lies between them.

    Examples
    --------
    >>> median_of(np.array([1.0, 2.0, 9.0]), np.array([1.0, 1.0, 2.0]))
    5.5
    """
    order = np.argsort(values, kind="stable")
    return at_half(values, order, np.cumsum(mass[order]))


def at_half(values: Floats, order: Integers, held: Floats) -> float:
    """As `median_of`, of values whose order is known, and how much mass there is up to each of them."""
    half, last = held[-1] / 2, len(order) - 1
    low, high = (values[order[min(int(held.searchsorted(half, side)), last)]] for side in ("left", "right"))
    return float(low / 2 + high / 2)


def reach(distances: Floats, mass: Floats) -> Floats:
    """For each line of distances, how far one has to go to have more than half of the mass.

    Examples
    --------
    >>> reach(np.array([[0.0, 1.0, 9.0]]), np.array([1.0, 1.0, 3.0]))
    array([9.])
    """
    order = np.argsort(distances, axis=1, kind="stable")
    past = 2 * np.cumsum(mass[order], axis=1) > mass.sum()
    last = np.take_along_axis(order, past.argmax(axis=1)[:, None], axis=1)
    return np.asarray(np.take_along_axis(distances, last, axis=1)[:, 0])


def medoid(distances: Floats, mass: Floats) -> int:
    """The row that has more than half of the mass nearest to it: less than half of the mass cannot move it."""
    return int(np.where(mass > 0.0, reach(distances, mass), np.inf).argmin())
