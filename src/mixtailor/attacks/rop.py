"""Relocated orthogonal perturbation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import check_fraction, check_positive, refuse
from mixtailor.attacks._formulas import constant
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.memory import Memory
from mixtailor.updates import Point

__all__ = ["ROP"]


@dataclass(frozen=True)
class ROP(Attack):
    r"""A step at an angle to where training goes, taken from near the server's last result.

    With the last result a and the honest mean :math:`\mu`, let :math:`r = \lambda a + (1 - \lambda) \mu`, and p the
    part of the vector of ones that is orthogonal to r. Then

    .. math:: b = \pi a + (1 - \pi) \mu + z \left( \sin\theta \frac{p}{\lVert p \rVert}
              + \cos\theta \frac{r}{\lVert r \rVert} \right)

    All f updates are equal. Rules that clip around their last result do not detect a step that is orthogonal to it.

    Parameters
    ----------
    z : float
        The length of the step, above 0.
    angle : float
        Theta in degrees, 0 to 180: at 90 the step is orthogonal to r, at 180 against it.
    location : float
        Pi, 0 to 1: from the honest mean (0) or from the last result (1).
    history : float
        Lambda, 0 to 1: how much the last result counts in r.

    Examples
    --------
    >>> ROP(angle=90.0, location=0.0)(np.array([[1.0, 0.0], [3.0, 0.0]]), f=1)
    array([[2., 1.]])

    Notes
    -----
    The server's results come with the state: ``state = attack.begin()``, and ``state.observe(result)`` after each
    round. Before the first result, the honest mean is used in its place. The form follows the authors' code, where the
    updates are momenta; the defaults are ours.

    References
    ----------
    .. [1] Özfatura, Özfatura, Küpçü, Gündüz, "Byzantines Can Also Learn From History: Fall of Centered Clipping in
       Federated Learning", IEEE TIFS 2024.
    """

    z: float = field(default=1.0, kw_only=True)
    angle: float = field(default=90.0, kw_only=True)
    location: float = field(default=1.0, kw_only=True)
    history: float = field(default=0.9, kw_only=True)

    needs: ClassVar[str] = "the honest updates and the server's last result"
    remembers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("ROP", "z", self.z)
        check_fraction("ROP", "location", self.location)
        check_fraction("ROP", "history", self.history)
        if not 0.0 <= self.angle <= 180.0:
            refuse(f"ROP needs an angle from 0 to 180 degrees and got {self.angle}.")

    def begin(self) -> Any:
        return Memory()

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, memory = scene.honest, scene.state
        last = honest.mean() if memory.previous is None else honest.given(scene.flat(memory.previous))
        frame = honest.beside(constant(honest, 1.0), last)
        mean = np.append(np.full(honest.n, 1.0 / honest.n), [0.0, 0.0])
        ones, result = np.eye(frame.n)[honest.n :]
        aim = self.history * result + (1.0 - self.history) * mean
        frame.distances(2.0)
        inner = frame.inner(frame.combine(aim), frame.combine(ones))
        share = inner[0, 1] / inner[0, 0] if inner[0, 0] > 0.0 else 0.0
        across = ones - share * aim
        height = math.sqrt(max(inner[1, 1] - share * inner[0, 1], 0.0))
        theta = math.radians(self.angle)
        step = np.zeros(frame.n)
        if height > 1e-9 * math.sqrt(inner[1, 1]):  # in one dimension, and along the ones, nothing is orthogonal
            step += math.sin(theta) / height * across
        if inner[0, 0] > 0.0:
            step += math.cos(theta) / math.sqrt(inner[0, 0]) * aim
        memory.round += 1
        return [frame.combine(self.location * result + (1.0 - self.location) * mean + self.z * step)] * scene.f
