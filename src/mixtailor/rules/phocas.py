"""Phocas: the mean around the trimmed mean."""

from dataclasses import dataclass
from typing import ClassVar

from mixtailor.rules.base import Rule
from mixtailor.updates import Around, Point, Updates

__all__ = ["Phocas"]


@dataclass(frozen=True)
class Phocas(Rule):
    r"""The mean of the n - f values nearest to the f-trimmed mean, in each coordinate.

    .. math:: U_k = \frac{1}{n - f} \sum_{i \in N_k} x_{ik}

    where :math:`N_k` holds the ``n - f`` updates whose k-th values are nearest to their trimmed mean. Needs
    ``n >= 2f + 1``. Cost O(n log^2 n d).

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.

    Examples
    --------
    >>> Phocas(f=1)(np.array([[1.0], [2.0], [3.0], [7.0], [9e9]]))
    array([3.25])

    Notes
    -----
    Of two values equally near, the smaller is used, so that the order of the updates does not matter. The paper's name
    for the number trimmed is b; here it is f, for both steps.

    The coefficient is ours: :math:`\frac{4 f}{n - f} (1 + \kappa) = \frac{4 f}{n - 2 f}` with the
    :math:`\kappa = \frac{f}{n - 2f}` of the trimmed mean, by the argument given at `Meamed`.

    References
    ----------
    .. [1] Xie, Koyejo, Gupta, "Phocas: Dimensional Byzantine-resilient Stochastic Gradient Descent", arXiv:1805.09682,
       2018.
    """

    f: int

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n log^2 n d)"
    kappa_is_ours: ClassVar[bool] = True

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def decide(self, updates: Updates) -> Point:
        return updates.columns(Around(updates.n - self.f, self.f))

    def kappa(self, n: int, f: int, d: int) -> float | None:
        return 4 * f / (n - 2 * f)
