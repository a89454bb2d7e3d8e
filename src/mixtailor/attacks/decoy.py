"""A far row, and a decoy on the average that it makes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_positive
from mixtailor.attacks._formulas import mean_direction, spread
from mixtailor.attacks.base import Attack, Scene
from mixtailor.updates import Point

__all__ = ["Decoy"]


@dataclass(frozen=True)
class Decoy(Attack):
    r"""f - 1 updates far away, against the honest mean, and one on the average of all n updates.

    .. math:: b_1 = \mu - D \, \mathrm{spread} \, \frac{\mu}{\lVert \mu \rVert}, \qquad
              b_f = \frac{\sum_{i \text{ honest}} x_i + (f - 1) b_1}{n - 1}

    The second update is the average of all n updates, itself included. A Bulyan that selects by the average picks the
    update closest to it, the decoy, first; with the mean as second phase its result moves without bound.

    Parameters
    ----------
    distance : float
        D, above 0.

    Examples
    --------
    >>> from mixtailor import Bulyan, Mean
    >>> honest = 1 + np.random.default_rng(0).normal(size=(10, 5)) / 10
    >>> updates = np.vstack([honest, Decoy(distance=1e6)(honest, f=2)])
    >>> bool(np.abs(Bulyan(f=2, selection=Mean(), then=Mean())(updates)).max() > 1e3)
    True

    Notes
    -----
    Needs f >= 2. The pool of the MixTailor paper has a Bulyan with the average in both phases.
    """

    distance: float = field(default=1e6, kw_only=True)

    needs: ClassVar[str] = "the honest updates' mean and spread"

    def __post_init__(self) -> None:
        check_positive("Decoy", "distance", self.distance)

    def least_f(self) -> int:
        return 2

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, f = scene.honest, scene.f
        unit = mean_direction(honest)
        far = np.full(honest.n, 1.0 / honest.n) - self.distance * spread(honest) * unit.weights
        decoy = (np.ones(honest.n) + (f - 1) * far) / (honest.n + f - 1)
        return [honest.combine(far)] * (f - 1) + [honest.combine(decoy)]
