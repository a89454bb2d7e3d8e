"""An attack at chosen times: after a sleep, as a single strike, or with a sign that alternates."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from mixtailor._checks import check_count
from mixtailor.attacks._wrapped import Wrapping, check_inner
from mixtailor.attacks.base import Scene
from mixtailor.updates import Formula, Point, Updates

__all__ = ["Schedule"]


@dataclass(frozen=True)
class Schedule(Wrapping):
    r"""Another attack in some rounds, and exactly the honest mean in all others.

    .. math:: b^t = \begin{cases} \mu + (a^t - \mu) & \text{in even spells} \\
        \mu - (a^t - \mu) & \text{in odd spells} \\ \mu & \text{before and after} \end{cases}

    with the inner attack's updates :math:`a^t`; a spell has `flip` rounds. ``Schedule(attack, start=200)`` sends the
    honest mean for 200 rounds first (a *sleeper*). ``Schedule(Tailored(1e4), start=240, length=1)`` attacks in a single
    round (a *strike*). ``Schedule(ALIE(z=0.5), flip=10)`` alternates its sign, so that it cancels in running means.

    Parameters
    ----------
    attack : Attack
        The attack of the scheduled rounds.
    start : int
        The first round of the attack; rounds count from 0.
    length : int, optional
        How many rounds the attack lasts; to the end by default.
    flip : int, optional
        After every `flip` rounds the updates change sides about the honest mean.

    Examples
    --------
    >>> from mixtailor.attacks import ALIE
    >>> honest = np.array([[1.0], [3.0]])
    >>> attack = Schedule(ALIE(z=0.5), start=1, flip=1)
    >>> state = attack.begin()
    >>> [float(attack(honest, f=1, state=state)[0, 0]) for _ in range(4)]
    [2.0, 1.5, 2.5, 1.5]

    Notes
    -----
    The state counts rounds. An inner attack with a state is also run in the other rounds, but its updates are not sent.
    Periods of `flip` rounds are counted from `start`.

    References
    ----------
    .. [1] Karimireddy, He, Jaggi, "Learning from History for Byzantine Robust Optimization", ICML 2021, on attacks
       whose harm shows over rounds only.
    """

    start: int = field(default=0, kw_only=True)
    length: int | None = field(default=None, kw_only=True)
    flip: int | None = field(default=None, kw_only=True)

    needs: ClassVar[str] = "what the inner attack needs, and the number of the round"

    def __post_init__(self) -> None:
        check_inner("Schedule", "attack", self.attack)
        check_count("Schedule", "start", self.start, 0)
        if self.length is not None:
            check_count("Schedule", "length", self.length)
        if self.flip is not None:
            check_count("Schedule", "flip", self.flip)

    def points(self, scene: Scene) -> Sequence[Point]:
        memory, mean = scene.state, scene.honest.mean()
        since = memory.round - self.start
        memory.round += 1
        awake = since >= 0 and (self.length is None or since < self.length)
        if not awake and not self.attack.remembers:
            return [mean] * scene.f
        rows = self.attack.points(dataclasses.replace(scene, state=memory.notes["attack"]))
        if not awake:
            return [mean] * scene.f
        if self.flip is None or since // self.flip % 2 == 0:
            return rows
        mirrored = {id(row): _mirrored(scene.honest, row, mean) for row in rows}  # equal rows stay one point
        return [mirrored[id(row)] for row in rows]


def _mirrored(honest: Updates, row: Point, mean: Point) -> Formula:
    return honest.formula(lambda _a, _b, value, centre: 2.0 * centre - value, row, mean, **row.facts)
