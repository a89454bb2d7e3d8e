"""Nearest-neighbour mixing."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_rows
from mixtailor.kernels.weighted import kept_by_rank
from mixtailor.preaggregation.base import PreAggregation
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Updates

__all__ = ["NNM"]


@dataclass(frozen=True)
class NNM(PreAggregation):
    r"""Nearest-neighbour mixing: each update becomes the mean of the n - f updates nearest to it, itself included.

    .. math:: y_i = \frac{1}{n - f} \sum_{j \in N(i)} x_j

    n and f stay as they are. Cost O(n^2 d), and nothing of size n x d is allocated: mixed updates are computed block by
    block.

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    p : float
        The norm of the distances, 1 to infinity.

    Examples
    --------
    >>> from mixtailor import Comed
    >>> updates = np.array([[1.0], [2.0], [3.0], [4.0], [90.0]])
    >>> (NNM(f=1) >> Comed())(updates)
    array([2.5])

    Notes
    -----
    Ties go to the update of the lower index. In front of a rule with coefficient :math:`\kappa`, the coefficient is
    :math:`\frac{8 f}{n - f} (1 + \kappa)`, so that every rule with a bounded coefficient becomes optimal up to a
    constant.

    References
    ----------
    .. [1] Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by Mixing: A Recipe for Optimal Byzantine ML
       under Heterogeneity", AISTATS 2023.
    """

    f: int
    p: float = field(default=2.0, kw_only=True)

    cost: ClassVar[str] = "O(n^2 d)"

    def after(self, n: int, f: int) -> tuple[int, int]:
        return n, f

    def asks(self) -> Asks:
        return Asks.distances(self.p)

    def prepare(self, updates: Updates) -> Updates:
        n = updates.n
        if n <= self.f:
            check_rows(self, "n >= f + 1", self.f + 1, n)
        return updates.mix(updates.nearest(n - self.f, self.p) / (n - self.f))

    def takes_weights(self) -> bool:
        return True

    def prepare_weighted(self, updates: Updates, weighting: Weighting) -> tuple[Updates, Weighting]:
        away = updates.distances(self.p).copy()
        away.flat[:: updates.n + 1] = -1.0
        wanted = weighting.total - weighting.faulty
        kept = [kept_by_rank(order, weighting.mass, wanted) for order in np.argsort(away, axis=1, kind="stable")]
        return updates.mix(np.array(kept) / wanted), weighting

    def weighted_kappa(self, share: float, d: int, behind: Rule) -> float | None:
        inner = behind.weighted_kappa(share, d)
        return None if inner is None or self.p != 2.0 else 8 * share / (1 - share) * (1 + inner)

    def kappa(self, n: int, f: int, d: int, behind: Rule) -> float | None:
        inner = behind.kappa(n, f, d)
        return None if inner is None or self.p != 2.0 else 8 * f / (n - f) * (1 + inner)
