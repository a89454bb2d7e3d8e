"""The coordinate-wise trimmed mean."""

from dataclasses import dataclass
from typing import ClassVar

from mixtailor.rules.base import Rule
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Point, Trimmed, Updates, WeightedTrimmed

__all__ = ["TrimmedMean"]


@dataclass(frozen=True)
class TrimmedMean(Rule):
    r"""The mean of each coordinate without its f smallest and f largest values.

    .. math:: U_k = \frac{1}{n - 2f} \sum_{i = f + 1}^{n - f} x_{(i) k}

    where :math:`x_{(1) k} \le \ldots \le x_{(n) k}` are the sorted values of coordinate k. Needs ``n >= 2f + 1``.
    Cost O(n log^2 n d).

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.

    Examples
    --------
    >>> TrimmedMean(f=1)(np.array([[1.0], [2.0], [3.0], [6.0], [9e9]]))
    array([3.66666667])

    Notes
    -----
    Yin et al. trim a fraction of the updates; here, as in most libraries, the number f is trimmed at either end. Values
    are summed after they are trimmed: libraries that subtract the extremes from the sum of all values lose all digits
    of the result to one value of 1e12.

    The coefficient ``f / (n - 2f)`` is sharp; Allouah et al. [2]_ publish ``f / (n - 2f) * (1 + f / (n - 2f))``.

    References
    ----------
    .. [1] Yin, Chen, Ramchandran, Bartlett, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates",
       ICML 2018.
    .. [2] Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by Mixing: A Recipe for Optimal Byzantine ML
       under Heterogeneity", AISTATS 2023.
    """

    f: int

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n log^2 n d)"

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def decide(self, updates: Updates) -> Point:
        return updates.columns(Trimmed(self.f))

    def takes_weights(self) -> bool:
        return True

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        return updates.columns(WeightedTrimmed(tuple(weighting.mass.tolist()), weighting.faulty))

    def weighted_kappa(self, share: float, d: int) -> float | None:
        return share / (1 - 2 * share)

    def kappa(self, n: int, f: int, d: int) -> float | None:
        return f / (n - 2 * f)
