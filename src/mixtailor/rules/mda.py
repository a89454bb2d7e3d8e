"""Minimum-diameter averaging."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import check_count
from mixtailor._types import Floats, Integers
from mixtailor.kernels.selection import by_neighbours
from mixtailor.rules._budget import Budget, Exhausted, neighbourhood
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.updates import Point, Updates

__all__ = ["MDA"]

Conflicts = np.ndarray[Any, np.dtype[np.bool_]]
# Five rows take at most 4 steps of the bisection and 5 of the choice, of 7 nodes each.
_LEAST_BUDGET = 100


@dataclass(frozen=True)
class MDA(Rule):
    r"""Minimum-diameter averaging: the mean of the n - f updates of least diameter.

    .. math:: \frac{1}{n - f} \sum_{i \in S^*} x_i, \qquad
        S^* = \arg\min_{|S| = n - f} \max_{i, j \in S} \lVert x_i - x_j \rVert_2

    Needs ``n >= 2f + 1``. Cost O(n^2 d), and a search in n-space that is exact.

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    budget : int
        How many nodes the search may visit, at least 100. Beyond it the result is the mean of a neighbourhood; see the
        notes.

    Examples
    --------
    >>> MDA(f=1)(np.array([[1.0], [2.0], [3.0], [90.0]]))
    array([2.])

    Notes
    -----
    A set has a diameter of at most D when no two of its updates are in conflict, that is, farther than D apart; the
    least D is found by bisection over the n(n-1)/2 distances, where each step checks whether f updates can be removed
    so that no conflict remains. That is a vertex cover. The search branches on the update with most conflicts: either
    this update is removed, or all updates in conflict with it are. Other libraries try all subsets, C(n, f) of them.

    Several sets often have the same diameter, since one pair decides it, and the paper leaves the choice open. Here
    updates are ordered by the sum of their distances to the n - f - 1 nearest others, then by index, and the
    lexicographically first set is used: it keeps the most central updates, and the order of the updates does not
    matter.

    A Byzantine worker can send an update that makes the search long. A search that exceeds its budget raises no error
    and keeps the guarantee: the result is the mean of the n - f updates nearest to the update with the least sum of
    squared distances to its n - f nearest updates, and the facts have ``fallback=True``. That mean is within
    :math:`(1 + \sqrt 2)^2 f / (n - 2f)` honest variances of the honest mean (squared): the chosen updates have at most
    twice the honest variance, and the means of two sets of n - f updates that share n - 2f differ by at most
    :math:`\sqrt{f / (n - 2f)}` times the sum of their deviations. This is below the coefficient of the search except
    for n <= 5, where every search ends within 100 nodes.

    Farhadkhani et al. [2]_ show that the result is at most ``2f / (n - f)`` honest diameters from the honest mean. The
    coefficient ``8 f^2 / (n - f)`` is ours and follows, since the square of the honest diameter is at most
    ``2 (n - f)`` times the honest variance.

    References
    ----------
    .. [1] El Mhamdi, Guerraoui, Guirguis, Hoang, Rouault, "Genuinely Distributed Byzantine Machine Learning", PODC
       2020.
    .. [2] Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Byzantine Machine Learning Made Easy by Resilient Averaging
       of Momentums", ICML 2022.
    """

    f: int
    budget: int = field(default=100_000, kw_only=True)

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n^2 d), and a search"
    kappa_is_ours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("MDA", "budget", self.budget, _LEAST_BUDGET)

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def asks(self) -> Asks:
        return Asks.distances(2)

    def decide(self, updates: Updates) -> Point:
        distances, budget = updates.distances(), Budget(self)
        order, _ = by_neighbours(distances, updates.n - self.f - 1, 1)
        ordered = distances[np.ix_(order, order)]
        try:
            diameter = least_diameter(ordered, self.f, budget)
            kept = first_without(ordered > diameter, self.f, budget)
        except Exhausted:
            rows = neighbourhood(distances, self.f)
            diameter = float(distances[np.ix_(rows, rows)].max())
            return updates.mean(rows, diameter=diameter, nodes=budget.spent, fallback=True)
        return updates.mean(np.sort(order[kept]), diameter=diameter, nodes=budget.spent)

    def kappa(self, n: int, f: int, d: int) -> float | None:
        return 8 * f**2 / (n - f)


def least_diameter(distances: Floats, f: int, budget: Budget) -> float:
    """The least diameter of the rows that are left when f leave."""
    lengths = np.unique(distances)
    low, high = 0, len(lengths) - 1
    while low < high:
        middle = (low + high) // 2
        if coverable(distances > lengths[middle], f, budget):
            high = middle
        else:
            low = middle + 1
    return float(lengths[low])


def coverable(conflicts: Conflicts, f: int, budget: Budget) -> bool:
    """Whether f rows can leave so that no two rows in conflict are left."""
    budget.spend()
    degrees = conflicts.sum(axis=1)
    if f <= 0 or not degrees.any():
        return f >= 0 and not degrees.any()
    if not degrees.all():  # rows without conflict have no say, and of many rows most are such
        conflicts, degrees = _without(conflicts, degrees == 0), degrees[degrees > 0]
    if 2 * np.sort(degrees)[-f:].sum() < degrees.sum():  # f rows cannot end as many conflicts
        return False
    single = np.nonzero(degrees == 1)[0]
    if len(single):  # of a row with one conflict and its opponent, the opponent may as well leave
        return coverable(_without(conflicts, conflicts[single[0]]), f - 1, budget)
    row = int(degrees.argmax())
    alone = np.arange(len(degrees)) == row
    if coverable(_without(conflicts, alone), f - 1, budget):
        return True
    # Where all have two conflicts or none, conflicts form rings, and any row of a ring may as well be the one to leave.
    return bool(degrees[row] > 2) and coverable(_without(conflicts, conflicts[row]), f - int(degrees[row]), budget)


def first_without(conflicts: Conflicts, f: int, budget: Budget) -> Integers:
    """The lexicographically first n - f rows without conflict; there must be some."""
    n = len(conflicts)
    gone = np.zeros(n, np.bool_)
    busy: Conflicts = conflicts.sum(axis=1) > 0
    kept: list[int] = []
    for row in range(n):
        if len(kept) == n - f:
            break
        if gone[row]:
            continue
        leaving = gone | conflicts[row]
        if not busy[row] or not (conflicts[row] & ~gone).any():
            # In any set without conflict, a row that is in conflict with none can take the place of a later one.
            kept.append(row)
            continue
        later = busy & ~leaving & (np.arange(n) > row)
        if coverable(conflicts[np.ix_(later, later)], f - int(leaving.sum()), budget):
            gone = leaving
            kept.append(row)
        else:
            gone[row] = True
    return np.array(kept, np.intp)


def _without(conflicts: Conflicts, leaving: Conflicts) -> Conflicts:
    return conflicts[np.ix_(~leaving, ~leaving)]
