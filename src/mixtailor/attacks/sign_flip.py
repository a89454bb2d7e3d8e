"""Sign flipping."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_positive
from mixtailor.attacks.base import Attack, Scene
from mixtailor.updates import Point

__all__ = ["SignFlip"]


@dataclass(frozen=True)
class SignFlip(Attack):
    r"""Each Byzantine worker sends the negative of its correct update.

    .. math:: b_i = -c \, x_i

    Parameters
    ----------
    scale : float
        c, above 0.

    Examples
    --------
    >>> SignFlip()(np.array([[1.0, 2.0], [3.0, 4.0]]), f=1, own=np.array([[1.0, 1.0]]))
    array([[-1., -1.]])

    Notes
    -----
    Without `own`, the honest mean is used in place of the correct updates, and the attack is `Tailored` with epsilon =
    scale.

    References
    ----------
    .. [1] Li, Xu, Chen, Giannakis, Ling, "RSA: Byzantine-Robust Stochastic Aggregation Methods for Distributed Learning
       from Heterogeneous Datasets", AAAI 2019.
    """

    scale: float = field(default=1.0, kw_only=True)

    needs: ClassVar[str] = "its own update"
    alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("SignFlip", "scale", self.scale)

    def points(self, scene: Scene) -> Sequence[Point]:
        rows = [scene.own_row(i) for i in range(scene.f)]
        return [row.updates.combine(np.multiply(row.weights, -self.scale)) for row in rows]
