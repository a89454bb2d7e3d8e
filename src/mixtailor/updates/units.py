"""Lengths that rules can square and sum: the unit of distances, and lengths beyond the range of float64."""

import numpy as np

from mixtailor._types import Floats

__all__ = ["SQUARABLE", "bounded", "in_unit"]

# Lengths up to this, and down to its inverse, can be squared and summed.
SQUARABLE = 1e140
# A medoid's reach up to this, and down to its inverse, needs no unit.
_ORDINARY = 1e20


def in_unit(lengths: Floats) -> tuple[Floats, float]:
    """Distances that can be squared and summed, and their unit.

    The unit is 1, unless the largest distance leaves the range in which float64 holds squares, and the reach of the
    medoid (the distance within which it has half of the rows) is not of an ordinary size. Then it is a power of two
    near that reach, which fewer than half of the rows cannot choose. Rows beyond the range count as being at its end.
    """
    largest = float(lengths.max(initial=0.0))
    if largest == 0.0 or 1 / SQUARABLE <= largest <= SQUARABLE:
        return lengths, 1.0
    rank = len(lengths) // 2
    reach = float(np.partition(lengths, rank, axis=1)[:, rank].min())
    if reach == 0.0:
        reach = min(largest, 1.0)
    # Up to this, what is at the end of the range is still beyond what any rule gives a weight.
    unit = 1.0 if 1 / _ORDINARY < reach < _ORDINARY else float(np.ldexp(0.5, np.frexp(reach)[1]))
    with np.errstate(over="ignore"):
        return np.minimum(lengths / unit, SQUARABLE), unit


def bounded(lengths: Floats) -> Floats:
    """Lengths that can be squared; those beyond the range are infinite.

    By half of the range: what `in_unit` put at its end comes back from inner products with their rounding.
    """
    return np.where(lengths >= 0.5 * SQUARABLE, np.inf, lengths)
