"""A push that oscillates with the server."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import check_count, check_positive, refuse
from mixtailor._types import Floats
from mixtailor.attacks._formulas import flat
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.memory import Memory
from mixtailor.updates import Point

__all__ = ["Pump"]


@dataclass(frozen=True)
class Pump(Attack):
    r"""The honest mean, and a push along the server's velocity in the directions where honest updates spread most.

    .. math:: b = \mu + c \, \rho \frac{P v}{\lVert P v \rVert}, \qquad v \leftarrow \gamma v + U, \qquad
              \rho = \mathrm{median}_i \lVert x_i - \mu \rVert

    P projects on the k directions in which the honest updates of this round spread most, U is the server's result, and
    v its running sum: the velocity of a server with momentum :math:`\gamma`. In these directions the loss is sharp and
    training oscillates. A push along the velocity reduces the damping. It changes its sign with the oscillation, so
    that it cancels in what a server remembers of the workers. It lies where honest updates differ, so that it is not an
    outlier in a single round.

    Parameters
    ----------
    length : float
        c, above 0: how long the push is, in distances of honest updates to their mean.
    directions : int
        k, at most one less than the honest updates.
    decay : float
        Gamma, at least 0 and below 1.

    Examples
    --------
    The honest updates differ in the first coordinate alone. The server moves in both, and is pushed in that one.

    >>> attack = Pump(length=2.0)
    >>> state = attack.begin()
    >>> honest = np.array([[1.0, 5.0], [3.0, 5.0]])
    >>> state.observe(np.array([-1.0, 5.0]))
    >>> attack(honest, f=1, state=state)
    array([[0., 5.]])

    Notes
    -----
    Pass each result to the state: ``state.observe(result)``. Before the first result, the honest mean is used in its
    place. If the velocity has no part in these directions, the honest mean is sent. The state keeps one vector of d
    numbers.
    """

    length: float = 1.2
    directions: int = field(default=3, kw_only=True)
    decay: float = field(default=0.9, kw_only=True)

    needs: ClassVar[str] = "the honest updates and the server's results"
    remembers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("Pump", "length", self.length)
        check_count("Pump", "directions", self.directions)
        if isinstance(self.decay, bool) or not isinstance(self.decay, (int, float)) or not 0.0 <= self.decay < 1.0:
            refuse(f"Pump needs 0 <= decay < 1 and got decay = {self.decay!r}.")

    def begin(self) -> Any:
        return Memory()

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, memory = scene.honest, scene.state
        mean = honest.mean()
        products = honest.products(about=mean)
        along = honest.dots(self._velocity(scene))
        memory.round += 1
        mixed = _projected(products, along - along.mean(), self.directions)
        size = math.sqrt(max(float(mixed @ products @ mixed), 0.0))
        reach = float(np.median(np.sqrt(np.maximum(np.diag(products), 0.0))))
        if size == 0.0:
            return [mean] * scene.f
        # The mean of the weights is taken off: they are on deviations from the mean.
        weights = 1.0 / honest.n + self.length * reach / size * (mixed - mixed.mean())
        return [honest.combine(weights)] * scene.f

    def _velocity(self, scene: Scene) -> Point:
        honest, memory = scene.honest, scene.state
        last: Point = honest.mean()
        if memory.previous is not None:
            last = honest.given(scene.flat(memory.previous))
        if "velocity" in memory.notes:
            frame = honest.beside(honest.given(memory.notes["velocity"]), last)
            last = frame.combine(np.append(np.zeros(honest.n), [self.decay, 1.0]))
        memory.notes["velocity"] = flat(honest, last)
        return honest.given(memory.notes["velocity"])


def _projected(products: Floats, along: Floats, directions: int) -> Floats:
    """The weights on the deviations that make a vector's projection on their top directions.

    `along` are the inner products of the vector with the deviations.
    """
    values, vectors = np.linalg.eigh(products)
    top = [k for k in range(len(values))[-directions:] if values[k] > 1e-12 * values[-1]]
    found: Floats = vectors[:, top] @ ((vectors[:, top].T @ along) / values[top])
    return found
