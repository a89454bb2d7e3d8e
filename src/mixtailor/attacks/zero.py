"""Nothing at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mixtailor.attacks.base import Attack, Scene
from mixtailor.updates import Point

__all__ = ["Zero"]


@dataclass(frozen=True)
class Zero(Attack):
    r"""Updates of zeros, from workers that take part without training.

    .. math:: b = 0

    Examples
    --------
    >>> Zero()(np.array([[1.0, 2.0], [3.0, 4.0]]), f=1)
    array([[0., 0.]])

    Notes
    -----
    It shortens averages. If honest updates are short compared with the distances between them, Krum selects it.
    """

    needs: ClassVar[str] = "nothing"
    alone: ClassVar[bool] = True

    def points(self, scene: Scene) -> Sequence[Point]:
        return [scene.honest.combine(np.zeros(scene.honest.n))] * scene.f
