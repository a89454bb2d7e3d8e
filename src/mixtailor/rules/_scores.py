"""n-space helpers that several rules share."""

import numpy as np

from mixtailor.updates.engine import Floats, Integers

__all__ = ["by_neighbours", "closest", "nearest", "squarable"]

_LARGEST = 1e150  # beyond this, and below its inverse, a distance's square is no float64 number, or has lost digits
_HUGE = float(np.finfo(np.float64).max)


def by_neighbours(distances: Floats, neighbours: int, power: int = 2) -> tuple[Integers, Floats]:
    """The rows in order of their scores, of equal ones the lower index first, and the scores.

    A score is the sum of a row's distances, to a power, to its nearest other rows. It is summed from the smallest up,
    so that one far neighbour does not swallow the digits of the near ones. The order is right where the powers are no
    float64 numbers, too: the scores are then reported as zero, or as the largest number.
    """
    others = np.sort(distances, axis=1)[:, 1 : neighbours + 1]  # without the row itself, whose distance is zero
    if others.size and (others[:, -1].max() > _LARGEST or _vanishes(others)):
        return _by_exponents(others, power)
    scores: Floats = (others**power).sum(axis=1)
    return np.argsort(scores, kind="stable"), scores


def _vanishes(ordered: Floats) -> bool:
    """Whether the square of a distance that is not zero may be."""
    least = 1 / _LARGEST
    return bool(ordered[:, 0].min() < least and ((ordered > 0.0) & (ordered < least)).any())


def _by_exponents(others: Floats, power: int) -> tuple[Integers, Floats]:
    """The same, each row's distances in units of a power of two near its largest, so that no square is lost."""
    others = np.minimum(others, _HUGE)  # infinity has no exponent
    exponents = np.frexp(others[:, -1])[1]
    fractions, more = np.frexp((np.ldexp(others, -exponents[:, None]) ** power).sum(axis=1))
    exponents = np.where(fractions > 0.0, power * exponents + more, -(2**30))
    with np.errstate(over="ignore"):
        scores = np.minimum(np.ldexp(fractions, exponents), _HUGE)
    return np.lexsort((fractions, exponents)), scores


def squarable(distances: Floats) -> Floats:
    """Distances whose squares are numbers: in units of the medoid's reach where float64 has no room for them."""
    rank = len(distances) // 2
    reach = float(np.partition(distances, rank, axis=1)[:, rank].min())
    # Where the rows that most are near to have distances beyond squares, all would tie, and a far row could win.
    return distances if reach == 0.0 or 1 / _LARGEST < reach < _LARGEST else distances / reach


def closest(scores: Floats, count: int) -> Integers:
    """The rows with the lowest scores, of equal ones those of lower index, in order of index."""
    return np.sort(np.argsort(scores, kind="stable")[:count])


def nearest(distances: Floats, count: int) -> Integers:
    """For each row the `count` rows nearest to it, itself first; ties to the lower index: (n, count)."""
    own = distances.copy()
    own.flat[:: len(own) + 1] = -1.0
    return np.argsort(own, axis=1, kind="stable")[:, :count]
