"""Krum."""

from dataclasses import dataclass, field
from typing import ClassVar

from mixtailor._checks import refuse
from mixtailor.rules._neighbours import check_krum_share, norm_factor, weighted_scores
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Point, Updates

__all__ = ["Krum"]


@dataclass(frozen=True)
class Krum(Rule):
    r"""The one update that is closest to its neighbours.

    .. math:: i^* = \arg\min_i \sum_{j \in N(i)} \lVert x_i - x_j \rVert_p^2

    where :math:`N(i)` holds the ``n - f - 2`` updates nearest to update i. Needs ``n >= 2f + 3``. Cost O(n^2 d).

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    p : float
        The norm, 1 to infinity.
    power : {2, 1}
        The power of the distances in the sum.

    Examples
    --------
    The far update is not selected.

    >>> Krum(f=1)(np.array([[1.0, 2.0], [1.1, 2.0], [0.9, 2.1], [1.0, 1.9], [9e9, 0.0]]))
    array([1., 2.])

    Notes
    -----
    Some libraries sum distances without squaring them, or over ``n - f - 1`` neighbours; `power=1` gives the former.
    Ties go to the update of the lowest index. Norms other than 2 are the generalized Krum of MixTailor [2]_.

    The coefficient is that of Allouah et al. [3]_ for p = 2; for other norms it is multiplied by
    :math:`d^{|1 - 2/p|}`, which is ours and follows from the inequalities between norms.

    References
    ----------
    .. [1] Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant Gradient
       Descent", NeurIPS 2017.
    .. [2] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022.
    .. [3] Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by Mixing: A Recipe for Optimal Byzantine ML
       under Heterogeneity", AISTATS 2023.
    """

    f: int
    p: float = field(default=2.0, kw_only=True)
    power: int = field(default=2, kw_only=True)

    requirement: ClassVar[str] = "n >= 2f + 3"
    cost: ClassVar[str] = "O(n^2 d)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.power not in (1, 2):
            refuse(f"Krum needs power = 2 (the paper's) or power = 1 and got {self.power!r}.")

    def min_rows(self) -> int:
        return 2 * self.f + 3

    def asks(self) -> Asks:
        return Asks.distances(self.p)

    def decide(self, updates: Updates) -> Point:
        # A selection inside Bulyan runs on fewer rows than the requirement asks for, with one neighbour at least.
        neighbours = max(1, updates.n - self.f - 2)
        order, scores = updates.by_neighbours(neighbours, self.power, self.p)
        return updates.row(order[0], scores=scores)

    def takes_weights(self) -> bool:
        return True

    def check_share(self, n: int, share: float) -> None:
        check_krum_share(self, n, share)

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        scores = weighted_scores(updates.distances(self.p), weighting, self.power)
        return updates.row(scores.argmin(), scores=scores)

    def kappa(self, n: int, f: int, d: int) -> float | None:
        return 6 * (1 + f / (n - 2 * f)) * norm_factor(d, self.p) if self.power == 2 else None
