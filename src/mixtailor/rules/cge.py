"""Comparative gradient elimination."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from mixtailor.kernels.selection import closest
from mixtailor.rules.base import Rule
from mixtailor.updates import Point, Updates

__all__ = ["CGE"]


@dataclass(frozen=True)
class CGE(Rule):
    r"""Comparative gradient elimination: the mean of the n - f updates of least norm.

    .. math:: \frac{1}{n - f} \sum_{i = 1}^{n - f} x_{(i)}, \qquad
        \lVert x_{(1)} \rVert_2 \le \ldots \le \lVert x_{(n)} \rVert_2

    Needs ``n >= 2f + 1``. Cost O(n d).

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.

    Examples
    --------
    >>> CGE(f=1)(np.array([[1.0], [2.0], [3.0], [-9e9]]))
    array([2.])

    Notes
    -----
    The first papers use the sum of the remaining updates. The mean, which later papers and most libraries use, differs
    by the factor ``n - f``. Ties go to the update of the lower index. A Byzantine update is included if it is no longer
    than the honest ones, whatever its direction. So the rule removes long updates, but does not detect wrong
    directions. No coefficient can exist, since the result does not move with a translation of the updates.

    References
    ----------
    .. [1] Gupta, Liu, Vaidya, "Byzantine Fault-Tolerant Distributed Machine Learning Using Stochastic Gradient Descent
       (SGD) and Norm-Based Comparative Gradient Elimination (CGE)", arXiv:2008.04699, 2020.
    """

    f: int

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n d)"
    lacks: ClassVar[Mapping[str, str]] = {"translation": "norms are taken about the origin"}

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def decide(self, updates: Updates) -> Point:
        scores = updates.norms()
        return updates.mean(closest(scores, updates.n - self.f), scores=scores)
