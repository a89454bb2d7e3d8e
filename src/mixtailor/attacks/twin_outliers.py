"""Identical rows, far away."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_positive
from mixtailor.attacks._formulas import mean_direction, spread
from mixtailor.attacks.base import Attack, Scene
from mixtailor.updates import Point

__all__ = ["TwinOutliers"]


@dataclass(frozen=True)
class TwinOutliers(Attack):
    r"""f identical updates at any distance, in the direction opposite to the honest mean.

    .. math:: b = \mu - D \, \mathrm{spread} \, \frac{\mu}{\lVert \mu \rVert}

    with the spread the median distance between honest updates. Bulyan selects updates by Krum until 2f updates are
    left. In its last selection only 2f + 1 updates are left, so that Krum compares each with f - 1 neighbours, or with
    one. Identical updates have f - 1 neighbours at distance zero, so one of them is selected. The mean around the
    median leaves it out; with the plain mean as second phase, it moves the result without bound.

    Parameters
    ----------
    distance : float
        D, above 0.

    Examples
    --------
    >>> from mixtailor import Bulyan, Mean
    >>> honest = 1 + np.random.default_rng(0).normal(size=(10, 5)) / 10
    >>> updates = np.vstack([honest, TwinOutliers(distance=1e6)(honest, f=2)])
    >>> bool(np.abs(Bulyan(f=2, then=Mean())(updates)).max() > 1e3), bool(np.abs(Bulyan(f=2)(updates)).max() < 2)
    (True, True)

    Notes
    -----
    Needs f >= 2. The pool of the MixTailor paper has four Bulyans with the mean as second phase.
    """

    distance: float = field(default=1e6, kw_only=True)

    needs: ClassVar[str] = "the honest updates' mean and spread"

    def __post_init__(self) -> None:
        check_positive("TwinOutliers", "distance", self.distance)

    def least_f(self) -> int:
        return 2

    def points(self, scene: Scene) -> Sequence[Point]:
        honest = scene.honest
        unit = mean_direction(honest)
        away = self.distance * spread(honest)
        return [honest.combine(np.full(honest.n, 1.0 / honest.n) - away * unit.weights)] * scene.f
