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
    r"""Comparative gradient elimination: the mean of the n - f rows of least norm.

    .. math:: \frac{1}{n - f} \sum_{i = 1}^{n - f} x_{(i)}, \qquad
        \lVert x_{(1)} \rVert_2 \le \ldots \le \lVert x_{(n)} \rVert_2

    Needs ``n >= 2f + 1``. Cost O(n d).

    Parameters
    ----------
    f : int
        How many rows may be Byzantine.

    Examples
    --------
    >>> CGE(f=1)(np.array([[1.0], [2.0], [3.0], [-9e9]]))
    array([2.])

    Notes
    -----
    The first papers sum the rows that are left; the mean, which later ones and most libraries take, differs by the
    factor ``n - f``. Ties go to the row of the lower index. A Byzantine row passes when it is no longer than the
    honest ones, in whatever direction it points: the rule guards against large rows, not against turned ones, and no
    coefficient can exist, since it does not move with a translation of the rows.

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
