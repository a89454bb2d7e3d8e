"""The medoid."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.updates import Point, Updates

__all__ = ["Medoid"]


@dataclass(frozen=True)
class Medoid(Rule):
    r"""The one update with the least sum of distances to all others.

    .. math:: i^* = \arg\min_i \sum_j \lVert x_i - x_j \rVert_p

    Needs ``n >= 1`` and tolerates fewer than half of the updates, so that no f is declared. Cost O(n^2 d).

    Parameters
    ----------
    p : float
        The norm, 1 to infinity.

    Examples
    --------
    >>> Medoid()(np.array([[1.0, 2.0], [1.1, 2.0], [0.9, 2.1], [0.0, 9e9]]))
    array([1., 2.])

    Notes
    -----
    With f of n updates Byzantine, the triangle inequality puts the medoid m within
    :math:`\lVert m - h \rVert \le \frac{2}{n - 2f} \sum_j \lVert h - x_j \rVert` of every honest update h, the sum
    being over honest updates: bounded as long as f < n/2. A mean of squared distances in place of the sum would give
    the update nearest to the mean, which one update moves without bound.

    Ties go to the update of the lowest index. With an update at 1e20, the digits in which the other sums differ would
    be lost to rounding. With p = 2 the differences of distances to far updates are taken from inner products, exact to
    rounding; with other norms an update more than 1e12 median distances away is left out of the sums.

    References
    ----------
    .. [1] Xie, Koyejo, Gupta, "Generalized Byzantine-tolerant SGD", arXiv:1802.10116, 2018.
    """

    p: float = field(default=2.0, kw_only=True)

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(n^2 d)"

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return (n - 1) // 2

    def asks(self) -> Asks:
        return Asks.distances(self.p)

    def decide(self, updates: Updates) -> Point:
        ordered = np.sort(updates.distances_above_medoid(self.p), axis=1)
        scores = ordered[:, 0] + ordered[:, 1:].sum(axis=1)
        return updates.row(scores.argmin(), scores=scores)
