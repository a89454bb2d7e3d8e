"""What rules that score a row by its neighbours share: scores with weights, and the factor of other norms."""

import math

import numpy as np

from mixtailor._types import Floats
from mixtailor.kernels.weighted import kept_by_rank
from mixtailor.rules.part import Part
from mixtailor.rules.weighting import Weighting, refuse_share

__all__ = ["check_krum_share", "median_distances", "norm_factor", "weighted_scores"]


def check_krum_share(rule: Part, n: int, share: float) -> None:
    """As ``n >= 2f + 3``: neighbours are what is left without the Byzantine share and two rows of mean weight."""
    if n * (1 - 2 * share) < 3 - 1e-9:
        refuse_share(rule, f"share <= (1 - 3/n) / 2 = {(1 - 3 / n) / 2:.4g}", share)


def weighted_scores(distances: Floats, weighting: Weighting, power: int) -> Floats:
    """The sum of each row's distances, to a power, to the nearest mass, its own first.

    That is all mass but the Byzantine one and one row of mean weight: with equal weights, ``n - f - 2`` other rows. A
    row without weight is not to be chosen.
    """
    mass = weighting.mass
    wanted = weighting.total - weighting.faulty - weighting.total / weighting.count
    scores = np.full(len(mass), np.inf)
    for row in np.nonzero(mass > 0.0)[0]:
        away = distances[row].copy()
        away[row] = -1.0
        order = np.argsort(away, kind="stable")
        kept = kept_by_rank(order, mass, wanted)[order]
        scores[row] = (kept[1:] * distances[row][order[1:]] ** power).sum()
    return scores


def median_distances(distances: Floats) -> Floats:
    """Each row's median distance to the others: the lower of two middle ones, which less than half cannot raise.

    Examples
    --------
    >>> median_distances(np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 8.0], [9.0, 8.0, 0.0]]))
    array([1., 1., 8.])
    """
    place = len(distances) // 2  # the first of all is the row itself
    medians: Floats = np.partition(distances, place, axis=1)[:, place]
    return medians


def norm_factor(d: int, p: float) -> float:
    r"""What a coefficient for the Euclidean norm becomes in l_p: times :math:`d^{|1 - 2/p|}`."""
    return math.pow(d, abs(1 - 2 / p))
