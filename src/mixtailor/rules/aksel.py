"""Aksel."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mixtailor.rules.base import Rule
from mixtailor.updates import Median, Point, Updates

__all__ = ["Aksel"]


@dataclass(frozen=True)
class Aksel(Rule):
    r"""The mean of the updates that are no farther from the coordinate-wise median than the median update.

    .. math:: \frac{1}{|B|} \sum_{i \in B} x_i, \qquad
        B = \{i : \lVert x_i - c \rVert_2 \le \operatorname{median}_j \lVert x_j - c \rVert_2\}

    where c is the coordinate-wise median. Needs ``n >= 1`` and tolerates fewer than half of the updates, so that no f
    is declared. Cost O(n log^2 n d).

    Examples
    --------
    >>> Aksel()(np.array([[1.0], [2.0], [3.0], [6.0], [9e9]]))
    array([2.])

    Notes
    -----
    About half of the updates are averaged; all updates at the same distance as the median update are included, so that
    the order of the updates does not matter. Some libraries take the (n + 1) // 2 nearest updates whatever ties there
    are, offer the n - f nearest instead, or take torch's lower median as c.

    At most half of the updates are faulty, so the median distance is at most that of the farthest honest update: what
    is averaged stays near the median, which stays within the honest values. No coefficient is published.

    References
    ----------
    .. [1] Boussetta, El Mhamdi, Guerraoui, Maurer, Rouault, "AKSEL: Fast Byzantine SGD", OPODIS 2020.
    """

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(n log^2 n d)"

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return (n - 1) // 2

    def decide(self, updates: Updates) -> Point:
        scores = updates.distances_to(updates.columns(Median()))
        # With n even, what is at most the mean of the two middle distances is at most the lower of them.
        median = np.sort(scores)[(updates.n - 1) // 2]
        return updates.mean(np.nonzero(scores <= median)[0], scores=scores)
