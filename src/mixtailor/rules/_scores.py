"""n-space helpers that several rules share."""

import numpy as np

from mixtailor.updates.engine import Floats, Integers

__all__ = ["closest", "nearest", "neighbour_scores", "squarable"]

_LARGEST = 1e150  # beyond this a distance's square overflows; such rows tie for the worst score


def neighbour_scores(distances: Floats, neighbours: int, power: float = 2.0) -> Floats:
    """The sum of each row's distances, to a power, to its nearest other rows.

    Summed from the smallest up, so that one far neighbour does not swallow the digits of the near ones.
    """
    others = np.sort(distances, axis=1)[:, 1:]  # without the row itself, whose distance is zero
    if len(others) > 1:
        others = _in_units(others, float(others[:, len(others) // 2 - 1].min()))
    scores: Floats = (np.minimum(others[:, :neighbours], _LARGEST) ** power).sum(axis=1)
    return scores


def squarable(distances: Floats) -> Floats:
    """Distances whose squares are numbers: in units of the medoid's reach where float64 has no room for them."""
    rank = len(distances) // 2
    return _in_units(distances, float(np.partition(distances, rank, axis=1)[:, rank].min()))


def _in_units(distances: Floats, reach: float) -> Floats:
    """Where the rows that most are near to have distances beyond squares, all would tie, and a far row could win."""
    return distances if reach == 0.0 or 1 / _LARGEST < reach < _LARGEST else distances / reach


def closest(scores: Floats, count: int) -> Integers:
    """The rows with the lowest scores, of equal ones those of lower index, in order of index."""
    return np.sort(np.argsort(scores, kind="stable")[:count])


def nearest(distances: Floats, count: int) -> Integers:
    """For each row the `count` rows nearest to it, itself first; ties to the lower index: (n, count)."""
    own = distances.copy()
    own.flat[:: len(own) + 1] = -1.0
    return np.argsort(own, axis=1, kind="stable")[:, :count]
