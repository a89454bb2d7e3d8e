"""The mean around the median."""

from dataclasses import dataclass
from typing import ClassVar

from mixtailor.rules.base import Rule
from mixtailor.rules.comed import Comed
from mixtailor.updates import Around, Point, Updates

__all__ = ["Meamed"]


@dataclass(frozen=True)
class Meamed(Rule):
    r"""The mean of the n - f values nearest to the median, in each coordinate.

    .. math:: U_k = \frac{1}{n - f} \sum_{i \in N_k} x_{ik}

    where :math:`N_k` holds the ``n - f`` updates whose k-th values are nearest to the median of the k-th values. Needs
    ``n >= 2f + 1``. Cost O(n log^2 n d).

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.

    Examples
    --------
    >>> Meamed(f=1)(np.array([[1.0], [2.0], [3.0], [6.0], [9e9]]))
    array([3.])

    Notes
    -----
    For even n, the median is the mean of the two middle values; some libraries use the lower one. Of two values equally
    near, the smaller is used, so that the order of the updates does not matter.

    The coefficient is ours: :math:`\frac{4 f}{n - f} (1 + \kappa)` with the :math:`\kappa` of the median. At most f
    honest values are left out, and the value that replaces :math:`x_i` is no farther from the median c than
    :math:`x_i`. So the error is at most :math:`\frac{1}{n - f} \sum 2 |x_i - c|` over f honest values, and Cauchy's
    inequality gives the coefficient.

    References
    ----------
    .. [1] Xie, Koyejo, Gupta, "Generalized Byzantine-tolerant SGD", arXiv:1802.10116, 2018.
    """

    f: int

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n log^2 n d)"
    kappa_is_ours: ClassVar[bool] = True

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def decide(self, updates: Updates) -> Point:
        return updates.columns(Around(updates.n - self.f))

    def kappa(self, n: int, f: int, d: int) -> float | None:
        centre = Comed().kappa(n, f, d)
        return None if centre is None else 4 * f / (n - f) * (1 + centre)
