"""The coordinate-wise median."""

from dataclasses import dataclass
from typing import ClassVar

from mixtailor.rules.base import Rule
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Median, Point, Updates, WeightedMedian

__all__ = ["Comed"]


@dataclass(frozen=True)
class Comed(Rule):
    r"""The median of each coordinate.

    .. math:: U_k = \operatorname{median}(x_{1k}, \ldots, x_{nk})

    Needs ``n >= 1`` and tolerates fewer than half of the updates, so that no f is declared. Cost O(nd log^2 n).

    Examples
    --------
    >>> Comed()(np.array([[1.0, 5.0], [2.0, 4.0], [9e9, -9e9]]))
    array([2., 4.])

    Notes
    -----
    With n even the result is the mean of the two middle values; torch's `median` gives the lower one. The coefficient
    is the sharp one of the scalar problem: with f updates Byzantine, at least ``a = floor(n/2) + 1 - f`` honest values
    lie on the far side of the median, and so ``kappa = (n - f - a) / a``.

    References
    ----------
    .. [1] Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates",
       ICML 2018.
    """

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(n log^2 n d)"

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return (n - 1) // 2

    def decide(self, updates: Updates) -> Point:
        return updates.columns(Median())

    def takes_weights(self) -> bool:
        return True

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        return updates.columns(WeightedMedian(tuple(weighting.mass.tolist())))

    def weighted_kappa(self, share: float, d: int) -> float | None:
        return 1 / (1 - 2 * share)  # of n repeated rows, as n grows

    def kappa(self, n: int, f: int, d: int) -> float | None:
        beyond = n // 2 + 1 - f
        return (n - f - beyond) / beyond if beyond > 0 else None
