"""The distance filter."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_norm, check_positive, refuse
from mixtailor.kernels.weighted import reach
from mixtailor.rules._neighbours import median_distances
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Point, Updates

__all__ = ["DistanceFilter"]


@dataclass(frozen=True)
class DistanceFilter(Rule):
    r"""The mean of the updates that are not much farther from the others than is usual.

    .. math:: \frac{1}{|K|} \sum_{i \in K} x_i, \qquad K = \{i : s_i \le c \, \operatorname{median}_j s_j\}, \qquad
              s_i = \operatorname{median}_{j \ne i} \lVert x_i - x_j \rVert_p^2

    Needs ``n >= 2`` and tolerates fewer than half of the updates, so that no f is declared. Cost O(n^2 d).

    Parameters
    ----------
    factor : float
        c, at least 1: how much larger than usual a squared distance may be.
    p : float
        The norm, 1 to infinity.

    Examples
    --------
    >>> DistanceFilter()(np.array([[1.0], [2.0], [3.0], [2.0], [9e9]]))
    array([2.])

    Notes
    -----
    If no update is far away, all updates are averaged. Rules that always remove f updates remove honest ones in this
    case, and Byzantine updates close to the mean get more than their share of the weight.

    The median over j is the lower of two middle values, and the one over the scores the upper one. With D the largest
    distance between two honest updates, the usual score is then at most D^2, since for more than half of the updates
    at least half of the others are honest. An update that is kept has at least n // 2 others within
    :math:`\sqrt{c} D`, one of which is honest. So the result is at most :math:`(1 + \sqrt{c}) D` from the honest mean.
    No coefficient in terms of the variance is known. The rule is ours.
    """

    factor: float = field(default=1.5, kw_only=True)
    p: float = field(default=2.0, kw_only=True)

    requirement: ClassVar[str] = "n >= 2"
    cost: ClassVar[str] = "O(n^2 d)"

    def __post_init__(self) -> None:
        check_positive("DistanceFilter", "factor", self.factor)
        if self.factor < 1.0:
            refuse(f"DistanceFilter needs factor >= 1, or it could remove everybody, and got factor = {self.factor}.")
        check_norm("DistanceFilter", self.p)

    def min_rows(self) -> int:
        return 2

    def tolerates(self, n: int) -> int:
        return (n - 1) // 2

    def asks(self) -> Asks:
        return Asks.distances(self.p)

    def decide(self, updates: Updates) -> Point:
        scores = median_distances(updates.distances(self.p)) ** 2
        usual = np.sort(scores)[updates.n // 2]
        return updates.mean(np.nonzero(scores <= self.factor * usual)[0], scores=scores)

    def takes_weights(self) -> bool:
        return True

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        mass = weighting.mass
        scores = reach(updates.distances(self.p), mass) ** 2
        kept = np.where(scores <= self.factor * reach(scores[None], mass)[0], mass, 0.0)
        return updates.combine(kept / kept.sum(), scores=scores)
