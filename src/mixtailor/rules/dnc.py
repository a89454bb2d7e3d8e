"""Divide and conquer."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count, check_positive, refuse
from mixtailor._types import Integers
from mixtailor.rules._spectra import Spread, largest_spread, products_about_medoid
from mixtailor.rules.base import Rule
from mixtailor.updates import Point, Updates

__all__ = ["DnC"]


@dataclass(frozen=True)
class DnC(Rule):
    r"""Divide and conquer: the mean of the updates that are outliers on none of several random samples of coordinates.

    On each sample, with v the top right singular vector of the updates less their mean, the updates with the
    ``floor(fraction f)`` largest scores

    .. math:: s_i = \langle x_i - \bar x, v \rangle^2

    are removed. The result is the mean of the updates that no sample removed. Needs ``n >= 2f + 1``. Cost O(iterations
    n^2 coordinates) and one reading of the updates that are kept.

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    coordinates : int
        How many coordinates a sample has; all of them where d is no larger.
    iterations : int
        How many samples are drawn.
    fraction : float
        How many updates are removed on each sample, in units of f; above 0, at most 2.

    Examples
    --------
    >>> DnC(f=1)(np.array([[1.0, 2.0], [1.5, 2.5], [2.0, 3.0], [9e9, 0.0]]))
    array([1.5, 2.5])

    Notes
    -----
    The paper does not say what the result is if every update is removed on some sample, which requires
    ``iterations * floor(fraction f) >= n``: here it is the mean of the updates that were removed on the fewest samples.
    Among equal scores, the update of the lowest index is kept.

    No bound is known, and f Byzantine updates can move the result without limit. Each sample uses one direction around
    a mean that is not robust: of two far updates at very different distances, the nearer one may not be detected
    because of the farther one. And where d is larger than `coordinates`, the samples may miss the coordinate in which
    an update is far. The samples are drawn from the secret randomness of the call, after the updates have arrived.

    References
    ----------
    .. [1] Shejwalkar, Houmansadr, "Manipulating the Byzantine: Optimizing Model Poisoning Attacks and Defenses for
       Federated Learning", NDSS 2021.
    """

    f: int
    coordinates: int = field(default=10_000, kw_only=True)
    iterations: int = field(default=5, kw_only=True)
    fraction: float = field(default=1.0, kw_only=True)

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n d + iterations n^2 coordinates)"
    reads_all: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("DnC", "coordinates", self.coordinates)
        check_count("DnC", "iterations", self.iterations)
        check_positive("DnC", "fraction", self.fraction)
        if self.fraction > 2.0:
            refuse(f"DnC needs fraction <= 2, since fewer than n - 2f rows may leave, and got {self.fraction}.")

    def min_rows(self) -> int:
        return 2 * self.f + 1

    @property
    def robust(self) -> bool:
        return False  # the notes say how f updates get through

    def decide(self, updates: Updates) -> Point:
        leaving = int(self.fraction * self.f)
        dropped = np.zeros(updates.n)
        # Where a sample holds all coordinates, the others would be the same.
        for _ in range(self.iterations if self.coordinates < updates.d else 1):
            products = products_about_medoid(updates.sample(self.coordinates))
            order = outwards(largest_spread(products, np.ones(updates.n)))
            dropped[order[updates.n - leaving :]] += 1
        kept = np.nonzero(dropped == dropped.min())[0]
        return updates.mean(kept, scores=dropped, selected=kept)


def outwards(spread: Spread) -> Integers:
    """The rows from the centre outwards.

    A far row takes the mean along, and rounding makes the others equally far from it: on the same side of the mean the
    projections themselves show which is farther, to the last digit.
    """
    projections, centre = spread.projections, spread.centre
    side = np.where(projections > centre, projections, -projections)
    return np.lexsort((side, spread.deviations))
