"""The nodes that an exact search may visit, and what is returned when they are spent."""

from typing import Any

from mixtailor._types import Floats, Integers
from mixtailor.kernels.selection import by_neighbours, closest

__all__ = ["Budget", "Exhausted", "neighbourhood"]


class Exhausted(Exception):
    """The nodes of a search are spent. It never leaves the rule."""


class Budget:
    """Counts the nodes of a search, and ends it when they are spent.

    Attributes
    ----------
    spent : int
        Nodes visited so far.
    """

    def __init__(self, rule: Any) -> None:
        self.rule, self.spent = rule, 0

    def spend(self) -> None:
        """Visit one more node."""
        if self.spent >= self.rule.budget:
            raise Exhausted
        self.spent += 1


def neighbourhood(distances: Floats, f: int) -> Integers:
    r"""The n - f rows nearest to the row whose n - f nearest rows, itself included, are closest to it in squares.

    Their mean is the result of a search that ran out of its budget. It needs no search, and its squared distance to
    the honest mean is at most :math:`(1 + \sqrt 2)^2 f / (n - 2f)` honest variances. The proof has three steps. Let V
    be the honest variance.

    - Averaged over the honest rows, the sum of squared distances to all honest rows is 2 (n - f) V. So the least sum
      over any n - f rows is no more, and the variance of the chosen rows about their own mean is at most 2 V.
    - The mean of n - f rows of variance v and the mean of any n - 2f of them differ by at most
      :math:`\sqrt{f v / (n - 2f)}`.
    - The chosen rows and the honest rows share n - 2f rows or more; go through the mean of the shared ones.

    Examples
    --------
    >>> rows = np.array([0.0, 1.0, 2.0, 9.0, 9.5])
    >>> neighbourhood(np.abs(rows[:, None] - rows), f=2)
    array([0, 1, 2])
    """
    order, _ = by_neighbours(distances, len(distances) - f - 1)
    return closest(distances[order[0]], len(distances) - f)
