"""Multi-Krum."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.kernels.weighted import kept_by_rank
from mixtailor.rules._neighbours import check_krum_share, norm_factor, weighted_scores
from mixtailor.rules.base import Rule
from mixtailor.rules.krum import Krum
from mixtailor.rules.part import Asks
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Point, Updates

__all__ = ["MultiKrum"]


@dataclass(frozen=True)
class MultiKrum(Rule):
    r"""The mean of the m updates that are closest to their neighbours.

    .. math:: \frac1m \sum_{i \in B} x_i, \qquad
        s(i) = \sum_{j \in N(i)} \lVert x_i - x_j \rVert_p^2

    where B holds the m updates of least score s, and :math:`N(i)` the ``n - f - 2`` updates nearest to update i. Needs
    ``n >= 2f + 3``, and ``n >= m + f``. Cost O(n^2 d).

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    m : int, optional
        How many updates are averaged; n - f by default.
    p : float
        The norm, 1 to infinity.
    power : {2, 1}
        The power of the distances in the score.

    Examples
    --------
    >>> MultiKrum(f=1)(np.array([[1.0, 2.0], [1.1, 2.0], [0.9, 2.1], [1.0, 1.9], [9e9, 0.0]]))
    array([1., 2.])

    Notes
    -----
    The paper leaves m to the user, between Krum (1) and the mean (n). Others use ``m = n - f - 2``, the largest m that
    El Mhamdi et al. [2]_ prove resilient, or ``m = n - f``, the number of honest updates, which is the default here.
    All scores are those of one pass: some libraries score again after each update they pick, which is a different rule.
    Ties go to the update of the lower index.

    The coefficient is ours, and proved at `mixtailor.theory.multi_krum_coefficient`, which is tighter and has no such
    short form; that of m = 1 is Krum's. Bareilles et al. [3]_ publish another.

    References
    ----------
    .. [1] Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant Gradient
       Descent", NeurIPS 2017.
    .. [2] El Mhamdi, Guerraoui, Rouault, "The Hidden Vulnerability of Distributed Learning in Byzantium", ICML 2018.
    .. [3] Bareilles, Bouaziz, Fageot, El Mhamdi, "Byzantine Machine Learning: MultiKrum and an optimal notion of
       robustness", arXiv:2602.03899, 2026.
    """

    f: int
    m: int | None = field(default=None, kw_only=True)
    p: float = field(default=2.0, kw_only=True)
    power: int = field(default=2, kw_only=True)

    requirement: ClassVar[str] = "n >= 2f + 3"
    cost: ClassVar[str] = "O(n^2 d)"
    kappa_is_ours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m is not None:
            check_count("MultiKrum", "m", self.m)
        if self.power not in (1, 2):
            refuse(f"MultiKrum needs power = 2 (the paper's) or power = 1 and got {self.power!r}.")

    def min_rows(self) -> int:
        return max(2 * self.f + 3, self.f + (self.m or 0))

    def needs(self) -> str:
        return self.requirement if self.m is None else f"{self.requirement} and n >= m + f"

    def asks(self) -> Asks:
        return Asks.distances(self.p)

    def decide(self, updates: Updates) -> Point:
        # A selection inside Bulyan runs on fewer rows than the requirement asks for.
        honest = max(1, updates.n - self.f)
        count = honest if self.m is None else min(self.m, updates.n)
        order, scores = updates.by_neighbours(max(1, honest - 2), self.power, self.p, certain=count)
        return updates.mean(np.sort(order[:count]), scores=scores)

    def takes_weights(self) -> bool:
        return True

    def check_share(self, n: int, share: float) -> None:
        check_krum_share(self, n, share)

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        scores = weighted_scores(updates.distances(self.p), weighting, self.power)
        total = weighting.total
        wanted = total - weighting.faulty if self.m is None else min(self.m / weighting.count, 1.0) * total
        kept = kept_by_rank(np.argsort(scores, kind="stable"), weighting.mass, wanted)
        return updates.combine(kept / kept.sum(), scores=scores)

    def kappa(self, n: int, f: int, d: int) -> float | None:
        if self.m == 1 or self.power != 2:
            return Krum(f, p=self.p, power=self.power).kappa(n, f, d) if self.m == 1 else None
        rows, near = n - f, n - 2 * f - 1
        if self.m is None:
            return 2 * f / rows * (1 + (4 * rows + 2 * f) / near) * norm_factor(d, self.p)
        return (4 * rows + 2 * (f + 1)) / near * norm_factor(d, self.p)
