"""An attack whose coordinates are divided among the Byzantine workers."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mixtailor._checks import check_count
from mixtailor.attacks._formulas import noise
from mixtailor.attacks._wrapped import Wrapping, check_inner
from mixtailor.attacks.base import Scene
from mixtailor.updates import Formula, Point, Updates

__all__ = ["Split"]


@dataclass(frozen=True)
class Split(Wrapping):
    r"""Each Byzantine worker runs another attack on its own share of the coordinates, and sends the mean elsewhere.

    .. math:: b_{ij} = \begin{cases} a_{ij} & s_j = i \\ \mu_j & \text{otherwise} \end{cases}

    with the inner attack's updates a, and a worker :math:`s_j` drawn for each coordinate. The deviations of two
    Byzantine workers from the honest mean are orthogonal, so that a defence which looks for workers that move together
    finds none; their sum is one whole deviation of the inner attack, where equal updates have f of them. The updates
    are :math:`\sqrt f` times nearer to the mean, and the inner attack may be larger by as much.

    Parameters
    ----------
    attack : Attack
        The attack that is divided.
    every : int, optional
        After how many rounds the shares are drawn again; by default never.

    Examples
    --------
    Each coordinate is shifted by one of the two.

    >>> from mixtailor.attacks import Tailored
    >>> honest = np.array([[1.0] * 6, [3.0] * 6, [2.0] * 6])
    >>> sent = Split(Tailored(epsilon=1.0))(honest, f=2, rng=0)
    >>> sent.sum(axis=0)
    array([0., 0., 0., 0., 0., 0.])

    Notes
    -----
    Shares are drawn coordinate by coordinate from a key that the state keeps, so that nothing of size d is stored.
    """

    every: int | None = field(default=None, kw_only=True)

    needs: ClassVar[str] = "what the inner attack needs"

    def __post_init__(self) -> None:
        check_inner("Split", "attack", self.attack)
        if self.every is not None:
            check_count("Split", "every", self.every)

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, memory = scene.honest, scene.state
        drawn = int(scene.random.integers(1 << 63))  # in every round, so that `every` changes nothing else
        if "seed" not in memory.notes or (self.every is not None and memory.round % self.every == 0):
            memory.notes["seed"] = drawn
        memory.round += 1
        rows = self.attack.points(dataclasses.replace(scene, state=memory.notes["attack"]))
        shares = noise(honest, memory.notes["seed"], "uniform")
        return [_share(honest, row, shares, i, scene.f) for i, row in enumerate(rows)]


def _share(honest: Updates, row: Point, shares: Point, i: int, f: int) -> Formula:
    def function(_start: int, _stop: int, value: Any, mean: Any, share: Any) -> Any:
        own = (share * f >= i) & (share * f < i + 1)
        return value * own + mean * ~own

    return honest.formula(function, row, honest.mean(), shares, **row.facts)
