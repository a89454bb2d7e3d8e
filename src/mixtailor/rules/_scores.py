"""n-space helpers that several rules share."""

import numpy as np

from mixtailor._types import Floats, Integers

__all__ = ["by_neighbours", "closest", "nearest"]


def by_neighbours(distances: Floats, neighbours: int, power: int = 2) -> tuple[Integers, Floats]:
    """The rows in order of their scores, of equal ones the lower index first, and the scores.

    A score is the sum of a row's distances, to a power, to its nearest other rows. It is summed from the smallest up,
    so that one far neighbour does not swallow the digits of the near ones.
    """
    others = np.sort(distances, axis=1)[:, 1 : neighbours + 1]  # without the row itself, whose distance is zero
    scores: Floats = (others**power).sum(axis=1)
    return np.argsort(scores, kind="stable"), scores


def closest(scores: Floats, count: int) -> Integers:
    """The rows with the lowest scores, of equal ones those of lower index, in order of index."""
    return np.sort(np.argsort(scores, kind="stable")[:count])


def nearest(distances: Floats, count: int) -> Integers:
    """For each row the `count` rows nearest to it, itself first; ties to the lower index: (n, count)."""
    own = distances.copy()
    own.flat[:: len(own) + 1] = -1.0
    return np.argsort(own, axis=1, kind="stable")[:, :count]
