"""A push against the way that training takes, round after round."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import check_positive, refuse
from mixtailor.attacks._formulas import flat, sign
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.memory import Memory
from mixtailor.updates import Deviation, Point, Updates

__all__ = ["Drift", "running_mean"]


@dataclass(frozen=True)
class Drift(Attack):
    r"""The honest mean, less z standard deviations against the signs of the *running* honest mean.

    .. math:: b_j = \mu_j - z \, \sigma_j \, \mathrm{sign}(r_j), \qquad r \leftarrow \gamma r + (1 - \gamma) \mu

    All f rows are equal and, with z around 1, no further out than honest rows are. `ALIE` pushes every coordinate down,
    whichever way training goes. This attack pushes each coordinate back to where it comes from, and always to the same
    side, so that momentum adds the pushes up while the noise of honest rows averages out.

    Parameters
    ----------
    z : float
        How many standard deviations, above 0.
    decay : float
        Gamma, at least 0 and below 1; 0 takes the signs of this round's mean.
    ddof : {0, 1}
        Whether variances are divided by the number of rows or by one less.

    Examples
    --------
    The first coordinate descends, the second ascends; both are pushed back by one deviation.

    >>> Drift()(np.array([[1.0, -4.0], [3.0, -6.0]]), f=1)
    array([[ 1., -4.]])

    Notes
    -----
    Without a state, or in the first round, the running mean is this round's. The state keeps one vector of d numbers.
    """

    z: float = 1.0
    decay: float = field(default=0.9, kw_only=True)
    ddof: int = field(default=0, kw_only=True)

    needs: ClassVar[str] = "the honest rows' mean and deviations, over rounds"
    remembers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("Drift", "z", self.z)
        if isinstance(self.decay, bool) or not isinstance(self.decay, (int, float)) or not 0.0 <= self.decay < 1.0:
            refuse(f"Drift needs 0 <= decay < 1 and got decay = {self.decay!r}.")
        if self.ddof not in (0, 1):
            refuse(f"Drift needs ddof = 0 or 1 and got ddof = {self.ddof!r}.")

    def begin(self) -> Any:
        return Memory()

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, z = scene.honest, self.z
        if honest.n <= self.ddof:
            refuse(f"{self!r} needs more than {self.ddof} honest rows for a standard deviation and got {honest.n}.")
        running = running_mean(honest, scene.state, self.decay)
        row = honest.formula(
            lambda _a, _b, mean, deviation, side: mean - z * deviation * side,
            honest.mean(),
            honest.columns(Deviation(self.ddof)),
            sign(honest, running),
        )
        scene.state.round += 1
        return [row] * scene.f


def running_mean(honest: Updates, memory: Memory, decay: float) -> Point:
    """The running mean of the honest rows with this round's, which the memory keeps. The first round starts it."""
    mean: Point = honest.mean()
    if "running" in memory.notes:
        frame = honest.beside(honest.given(memory.notes["running"]))
        mean = frame.combine(np.append(np.full(honest.n, (1.0 - decay) / honest.n), decay))
    memory.notes["running"] = flat(honest, mean)
    return honest.given(memory.notes["running"])
