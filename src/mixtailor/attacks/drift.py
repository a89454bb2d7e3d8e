"""A push against the way that training takes, round after round."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Floats
from mixtailor.attacks._formulas import flat, length, sign
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.memory import Memory
from mixtailor.updates import Deviation, Formula, Point, Updates

__all__ = ["Drift", "against_signs", "length_ratio", "row_weights", "running_mean"]


@dataclass(frozen=True)
class Drift(Attack):
    r"""The honest mean, less z standard deviations against the signs of the *running* honest mean.

    .. math:: b = \mu - z \, \sigma \circ \mathrm{sign}(r) - a \, \lVert \sigma \rVert \frac{r}{\lVert r \rVert}
        + c \, (x_{\pi} - \mu), \qquad r \leftarrow \gamma r + (1 - \gamma) \mu

    a and c are zero by default. All f updates are then equal and, with z around 1, no further out than honest updates
    are. `ALIE` pushes every coordinate down, whichever way training goes. This attack pushes each coordinate against
    the direction of training, always to the same side, so that momentum adds the pushes up while the noise of honest
    updates averages out.

    Parameters
    ----------
    z : float
        How many standard deviations.
    along : float
        a: how far to push against the running mean itself, in units of the honest updates' distance to their mean.
    disguise : float
        c: each Byzantine worker adds this share of the deviation of an honest one, another in each round, so that the
        Byzantine updates differ.
    decay : float
        Gamma, at least 0 and below 1; 0 takes the signs of this round's mean.
    ddof : {0, 1}
        Whether variances are divided by the number of updates or by one less.

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
    along: float = field(default=0.0, kw_only=True)
    disguise: float = field(default=0.0, kw_only=True)
    decay: float = field(default=0.9, kw_only=True)
    ddof: int = field(default=0, kw_only=True)

    needs: ClassVar[str] = "the honest updates' mean and deviations, over rounds"
    remembers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("z", "along", "disguise"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                refuse(f"Drift needs {name} as a finite number and got {name} = {value!r}.")
        if isinstance(self.decay, bool) or not isinstance(self.decay, (int, float)) or not 0.0 <= self.decay < 1.0:
            refuse(f"Drift needs 0 <= decay < 1 and got decay = {self.decay!r}.")
        if self.ddof not in (0, 1):
            refuse(f"Drift needs ddof = 0 or 1 and got ddof = {self.ddof!r}.")

    def begin(self) -> Any:
        return Memory()

    def points(self, scene: Scene) -> Sequence[Point]:
        honest = scene.honest
        if honest.n <= self.ddof:
            refuse(f"{self!r} needs more than {self.ddof} honest rows for a standard deviation and got {honest.n}.")
        running = running_mean(honest, scene.state, self.decay)
        pushes = against_signs(honest, running, self.ddof)
        scene.state.round += 1
        reach = length_ratio(length(pushes), length(running)) if self.along else 0.0
        row = row_weights((self.z, self.along, self.disguise), honest.n, reach)
        frame = honest.beside(pushes, running)
        if not self.disguise:
            return [frame.combine(row(0))] * scene.f
        return [frame.combine(row(int(copied))) for copied in scene.random.permutation(honest.n)[: scene.f]]


def against_signs(honest: Updates, running: Point, ddof: int = 0) -> Formula:
    """The honest updates' deviation in each coordinate, with the sign of the running mean."""
    return honest.formula(
        lambda _a, _b, deviation, side: deviation * side, honest.columns(Deviation(ddof)), sign(honest, running)
    )


def row_weights(theta: Sequence[float] | Floats, n: int, reach: float) -> Callable[[int], Floats]:
    """The weights of a Byzantine update over the honest updates, the pushes and the running mean, by whom it copies.

    Examples
    --------
    >>> row_weights((1.0, 0.5, 0.0), 2, 3.0)(0)
    array([ 0.5,  0.5, -1. , -1.5])
    """
    signs, along, disguise = theta

    def row(copied: int) -> Floats:
        weights = np.append(np.full(n, (1.0 - disguise) / n), [-signs, -along * reach])
        weights[copied] += disguise
        return weights

    return row


def length_ratio(deviation: float, mean: float) -> float:
    """What takes the running mean to the length of the honest updates' deviation; 0 where it has none."""
    return deviation / mean if mean > 0.0 and math.isfinite(deviation / mean) else 0.0


def running_mean(honest: Updates, memory: Memory, decay: float) -> Point:
    """The running mean of the honest updates with this round's, which the memory keeps. The first round starts it."""
    mean: Point = honest.mean()
    if "running" in memory.notes:
        frame = honest.beside(honest.given(memory.notes["running"]))
        mean = frame.combine(np.append(np.full(honest.n, (1.0 - decay) / honest.n), decay))
    memory.notes["running"] = flat(honest, mean)
    return honest.given(memory.notes["running"])
