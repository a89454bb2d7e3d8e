"""Two attacks at once: some Byzantine workers do one thing, and the others another."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import check_count
from mixtailor.attacks._wrapped import check_inner
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.gaussian import Gaussian
from mixtailor.attacks.memory import Memory
from mixtailor.updates import Point

__all__ = ["Roles"]


@dataclass(frozen=True)
class Roles(Attack):
    """The first Byzantine workers run one attack, the others another.

    By default the first worker sends noise of size 1e10 to hide the others. A defence that scales all updates by the
    largest, or that adds up deviations over rounds, no longer detects them.

    Parameters
    ----------
    attack : Attack
        The attack of the other Byzantine workers.
    other : Attack
        The attack of the first `count` Byzantine workers; noise of deviation 1e10 by default.
    count : int
        How many Byzantine workers run `other`.

    Examples
    --------
    >>> from mixtailor.attacks import ALIE
    >>> sent = Roles(ALIE(z=1.0))(np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]]), f=2, rng=0)
    >>> bool(np.abs(sent[0]).max() > 1e9), sent[1].round(2)
    (True, array([1.18, 5.  ]))

    Notes
    -----
    Each of the two attacks is computed as if the workers that run it were all Byzantine workers. Needs one Byzantine
    worker more than `count`, and more where the attacks do.
    """

    attack: Attack
    other: Attack = field(default_factory=lambda: Gaussian(deviation=1e10))
    count: int = field(default=1, kw_only=True)

    needs: ClassVar[str] = "what both attacks need"
    remembers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_inner("Roles", "attack", self.attack)
        check_inner("Roles", "other", self.other)
        check_count("Roles", "count", self.count)

    def begin(self) -> Any:
        return Memory(notes={"attack": self.attack.begin(), "other": self.other.begin()})

    def least_f(self) -> int:
        return max(self.count, self.other.least_f()) + self.attack.least_f()

    def least_rows(self) -> int:
        return max(self.attack.least_rows(), self.other.least_rows())

    def needs_own(self) -> bool:
        return self.attack.needs_own() or self.other.needs_own()

    def points(self, scene: Scene) -> Sequence[Point]:
        places = np.arange(scene.f)
        scene.state.round += 1
        return [
            *self._part(self.other, "other", scene, places[: self.count]),
            *self._part(self.attack, "attack", scene, places[self.count :]),
        ]

    def _part(self, attack: Attack, name: str, scene: Scene, places: "np.ndarray[Any, Any]") -> Sequence[Point]:
        f = len(places)
        own = None if scene.own is None else scene.own.take(places, shared=True)
        state = scene.state.notes[name]
        return attack.points(dataclasses.replace(scene, f=f, n=scene.honest.n + f, own=own, state=state))
