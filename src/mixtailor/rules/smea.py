"""Smallest maximum eigenvalue averaging."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count
from mixtailor._types import Floats, Integers
from mixtailor.kernels.selection import closest
from mixtailor.rules._budget import Budget, Exhausted, neighbourhood
from mixtailor.rules._spectra import largest_eigenvalue
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.updates import Point, Updates

__all__ = ["SMEA"]

# Eigenvalues that differ by less than this, relatively, are equal up to rounding.
_EQUAL = 1e-9


@dataclass(frozen=True)
class SMEA(Rule):
    r"""Smallest maximum eigenvalue averaging: the mean of the n - f updates whose covariance has the least norm.

    .. math:: \frac{1}{n - f} \sum_{i \in S^*} x_i, \qquad
        S^* = \arg\min_{|S| = n - f} \lambda_{\max} \Big( \sum_{i \in S} (x_i - \bar x_S) (x_i - \bar x_S)^T \Big)

    Needs ``n >= 2f + 1``. Cost O(n^2 d), and a search in n-space that is exact to rounding.

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    budget : int
        How many nodes the search may visit. Beyond it the result is the mean of a neighbourhood; see the notes.

    Examples
    --------
    >>> SMEA(f=1)(np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [90.0, 1.0]]))
    array([2.        , 0.33333333])

    Notes
    -----
    The largest eigenvalue only grows when an update is added, so two updates at distance D cannot both be kept once a
    set with less than :math:`D^2 / 2` is known, and an update with more than f such pairs is removed before the updates
    are centred: a far update causes no rounding error. With K the centred inner products of the m remaining updates,
    and eigenvalues :math:`\lambda_l` and eigenvectors :math:`v_l` of K, a set R can be removed such that the largest
    eigenvalue falls below :math:`\mu` if and only if

    .. math:: Q_{RR}, \qquad Q = \sum_l \frac{\mu}{\mu - \lambda_l} v_l v_l^T - \frac1m 1 1^T

    has as many negative eigenvalues as K has eigenvalues above :math:`\mu`, by the additivity of inertia [2]_. So
    updates are eliminated from Q one by one, as in Gaussian elimination, and a branch ends when fewer updates can still
    be chosen than negative pivots are missing. Other libraries try all subsets, C(n, f) of them. Of sets that are equal
    up to rounding (1e-9), the lexicographically first is used.

    The search takes longest for updates with equal variance in all directions: for these, f = 9 of n = 20 and f = 4 of
    n = 100 stay well within the default budget, f = 10 of n = 50 does not. A Byzantine worker can send an update that
    makes the search long. A search that exceeds its budget therefore raises no error and keeps the guarantee: the
    result is the mean of the n - f updates nearest to the update with the least sum of squared distances to its n - f
    nearest updates, and the facts have ``fallback=True``. That mean is within :math:`(1 + \sqrt 2)^2 f / (n - 2f)`
    honest variances of the honest mean (squared): the chosen updates have at most twice the honest variance, and the
    means of two sets of n - f updates that share n - 2f differ by at most :math:`\sqrt{f / (n - 2f)}` times the sum of
    their deviations.

    The coefficient holds in both cases and is therefore ours. The paper has 4 in place of 6, for a search that ends.

    References
    ----------
    .. [1] Allouah, Guerraoui, Gupta, Pinot, Stephan, "On the Privacy-Robustness-Utility Trilemma in Distributed
       Learning", ICML 2023; there the coefficient is relative to the largest eigenvalue alone.
    .. [2] Haynsworth, "Determination of the Inertia of a Partitioned Hermitian Matrix", Linear Algebra and its
       Applications 1, 1968.
    """

    f: int
    budget: int = field(default=100_000, kw_only=True)

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n^2 d), and a search"
    kappa_is_ours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("SMEA", "budget", self.budget)

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def asks(self) -> Asks:
        return Asks.distances(2)

    def decide(self, updates: Updates) -> Point:
        budget, rows = Budget(self), np.arange(updates.n)
        if not self.f:
            return updates.mean(rows, nodes=0)
        middle, products, distances = updates.about_medoid()
        rows = closest(distances[middle], updates.n - self.f)
        if distances[np.ix_(rows, rows)].any():
            try:
                rows = least_spread(distances, products, rows, budget)
            except Exhausted:
                return updates.mean(neighbourhood(distances, self.f), nodes=budget.spent, fallback=True)
        return updates.mean(rows, nodes=budget.spent)

    def kappa(self, n: int, f: int, d: int) -> float | None:
        return 6 * f / (n - f) * (1 + f / (n - 2 * f)) ** 2


def least_spread(distances: Floats, products: Floats, start: Integers, budget: Budget) -> Integers:
    """As many rows as `start` has, with the smallest largest eigenvalue of their scatter."""
    best, spread = start, _spread(products, start)
    if spread <= 0.0:  # squares of the least numbers vanish
        return start
    left = _possible(distances, len(start), spread)
    room = len(left) - len(start)
    if room < 0:  # distances whose squares float64 cannot hold
        return start
    while room:
        found = _better(products, left, room, spread * (1 - _EQUAL), budget, first=False)
        if found is None:
            found = _better(products, left, room, spread * (1 + _EQUAL), budget, first=True)
            return best if found is None else found
        best, spread = found, _spread(products, found)
    return left


def _centred(products: Floats, rows: Integers) -> Floats:
    inner = products[np.ix_(rows, rows)]
    means = inner.mean(axis=0)
    centred: Floats = inner - means - means[:, None] + means.mean()
    return centred


def _spread(products: Floats, rows: Integers) -> float:
    return largest_eigenvalue(_centred(products, rows))


def _possible(distances: Floats, count: int, spread: float) -> Integers:
    """The rows that a set of `count` rows with no more than this spread can hold."""
    left = np.arange(len(distances))
    while True:
        opponents = (distances[np.ix_(left, left)] > np.sqrt(2 * spread) * (1 + _EQUAL)).sum(axis=1)
        staying = opponents <= len(left) - count
        if staying.all():
            return left
        left = left[staying]


def _better(
    products: Floats, left: Integers, room: int, limit: float, budget: Budget, *, first: bool
) -> Integers | None:
    """Rows with a spread below the limit when `room` of those left leave: the lexicographically first, or any."""
    values, vectors = np.linalg.eigh(_centred(products, left))
    gaps = limit - values
    factors = limit / np.where(gaps == 0.0, 1e-15 * limit, gaps)
    # Lowered by its own rounding: a set may then be found in vain, and is checked, but none is missed.
    slack = 1e-14 * len(left) * float(np.abs(factors).max())
    matrix = (vectors * factors) @ vectors.T - 1 / len(left) - slack * np.eye(len(left))
    order = np.arange(len(left)) if first else np.argsort(-np.diag(matrix), kind="stable")
    above = int((values > limit).sum())
    for leaving in _leaving(matrix[np.ix_(order, order)], order, room, above, slack, budget):
        rows = np.delete(left, leaving)
        if _spread(products, rows) < limit:
            return rows
    return None


def _leaving(
    matrix: Floats, rows: Integers, count: int, negative: int, slack: float, budget: Budget
) -> Iterator[list[int]]:
    """The sets of `count` rows on which the matrix has so many negative eigenvalues at least, the last ones first: of
    the rows that stay, the lexicographically first come first."""
    budget.spend()
    if negative == count:  # then no pivot may be positive
        chosen = np.nonzero(matrix.diagonal() < 0)[0]
        matrix, rows = matrix[np.ix_(chosen, chosen)], rows[chosen]
    size, diagonal = len(rows), matrix.diagonal()
    if negative > count or size < count:
        return
    if negative <= 0:
        for staying in combinations(range(size), size - count):
            yield [int(row) for row in np.delete(rows, staying)]
            budget.spend()
    elif count == 1:
        for k in np.nonzero(diagonal < 0)[0][::-1]:
            yield [int(rows[k])]
    elif count == 2:
        for i, j in np.argwhere(np.triu(_pairs(matrix, negative), 1))[::-1]:
            yield [int(rows[i]), int(rows[j])]
    elif (np.linalg.eigvalsh(matrix) < 0).sum() >= negative:
        for k in range(size - count, -1, -1):
            pivot = diagonal[k] if abs(diagonal[k]) > slack else -slack
            rest = matrix[k + 1 :, k + 1 :] - np.outer(matrix[k + 1 :, k], matrix[k + 1 :, k]) / pivot
            for others in _leaving(rest, rows[k + 1 :], count - 1, negative - int(pivot < 0), slack, budget):
                yield [int(rows[k]), *others]


def _pairs(matrix: Floats, negative: int) -> "np.ndarray[tuple[int, int], np.dtype[np.bool_]]":
    """The pairs on which the matrix has one negative eigenvalue at least, or two; for two, pivots are negative."""
    diagonal = matrix.diagonal()
    determinants = np.outer(diagonal, diagonal) - matrix**2
    if negative == 2:
        return determinants > 0
    below = diagonal < 0
    return (determinants < 0) | below[:, None] | below[None, :]
