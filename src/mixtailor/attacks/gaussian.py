"""Gaussian noise."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from mixtailor._checks import check_positive
from mixtailor.attacks._formulas import noise
from mixtailor.attacks.base import Attack, Scene
from mixtailor.updates import Point

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(Attack):
    r"""Independent normal numbers in place of the correct update, or added to it.

    .. math:: b_i \sim \mathcal N(0, \sigma^2 I) \qquad \text{or} \qquad b_i \sim \mathcal N(x_i, \sigma^2 I)

    Parameters
    ----------
    deviation : float
        Sigma, above 0.
    added : bool
        Whether the noise is added to the worker's correct update.

    Examples
    --------
    >>> Gaussian(deviation=3.0)(np.zeros((4, 1000)), f=2, rng=0).std().round(1)
    np.float64(3.0)

    Notes
    -----
    The deviation of 200 is that of the Krum paper. The numbers are computed from a key block by block, and not stored.

    References
    ----------
    .. [1] Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant Gradient
       Descent", NeurIPS 2017.
    """

    deviation: float = field(default=200.0, kw_only=True)
    added: bool = field(default=False, kw_only=True)

    needs: ClassVar[str] = "nothing, or its own update"
    alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("Gaussian", "deviation", self.deviation)

    def points(self, scene: Scene) -> Sequence[Point]:
        honest = scene.honest
        rows: list[Point] = []
        for i in range(scene.f):
            numbers = noise(honest, int(scene.random.integers(1 << 63)))
            if self.added:
                rows.append(honest.formula(lambda _a, _b, x, e: x + self.deviation * e, scene.own_row(i), numbers))
            else:
                rows.append(honest.formula(lambda _a, _b, e: self.deviation * e, numbers))
        return rows
