"""Workers that save up for one blow."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import check_count, check_positive
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.memory import Memory
from mixtailor.attacks.trials import Trials, check_target
from mixtailor.rules import Rule
from mixtailor.updates import Combination, Point

__all__ = ["Blow"]

_SIZES = 9  # between the length of the honest mean and `largest` times that
_NEARLY = 0.9  # of the best chance while watching: worth a blow


@dataclass(frozen=True)
class Blow(Attack):
    r"""The honest mean in most rounds, and in the round of most expected harm f large updates against it.

    .. math:: b = -s \mu, \qquad s = \arg\max_s \; h(s), \qquad
        h(s) = \sum_m p_m \max\left(0, -\frac{\langle U_m, \mu \rangle}{\lVert \mu \rVert^2} \right)

    In every round the attackers try sizes s up to `largest` on each rule that may be drawn, and know what the server
    remembers. For `watch` rounds they only compute the expected harm of the best size. After that they attack in the
    first round whose expected harm is nearly as large as the largest so far, and then send the honest mean again.

    Parameters
    ----------
    target : Rule
        The rule, the MixTailor, or the rule with a memory that the server uses.
    watch : int
        How many rounds the attackers only observe.
    blows : int
        In how many rounds they attack.
    largest : float
        The largest size that they try.

    Examples
    --------
    >>> from mixtailor import Mean
    >>> honest = 1.0 + np.random.default_rng(0).normal(size=(10, 50)) / 10
    >>> attack = Blow(Mean(), watch=2)
    >>> state = attack.begin()
    >>> [round(float(attack(honest, f=2, state=state)[0].mean())) for _ in range(4)]
    [1, 1, -997311, 1]

    Notes
    -----
    An attack in a single round does not show in running means beforehand, and one weak rule in a pool is enough for it:
    the expected harm is that rule's probability times an unbounded step. If no size is harmful, they never attack.
    """

    target: Rule
    watch: int = field(default=50, kw_only=True)
    blows: int = field(default=1, kw_only=True)
    largest: float = field(default=1e6, kw_only=True)

    needs: ClassVar[str] = "the honest updates, the server's rules and its memory"
    remembers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.target, Rule):
            raise TypeError(f"Blow needs target= as a rule or a MixTailor and got {self.target!r}.")
        check_count("Blow", "watch", self.watch, 0)
        check_count("Blow", "blows", self.blows)
        check_positive("Blow", "largest", self.largest)

    def begin(self) -> Any:
        return Memory(notes={"best": 0.0, "struck": 0})

    def points(self, scene: Scene) -> Sequence[Point]:
        memory, honest = scene.state, scene.honest
        watching = memory.round < self.watch
        memory.round += 1
        if memory.notes["struck"] >= self.blows:
            return [honest.mean()] * scene.f
        size, harm = self._chance(scene)
        worth = harm > 0.0 and harm >= _NEARLY * memory.notes["best"]
        memory.notes["best"] = max(memory.notes["best"], harm)
        if watching or not worth:
            return [honest.mean(harm=harm)] * scene.f
        memory.notes["struck"] += 1
        return [_against(scene, size).with_facts(size=size, harm=harm)] * scene.f

    def _chance(self, scene: Scene) -> tuple[float, float]:
        """The size that promises the most harm, and how much."""
        trials = Trials(check_target(self, self.target, scene.n), scene)
        best, most = 1.0, 0.0
        for size in np.geomspace(1.0, max(self.largest, 1.0), _SIZES):
            outcomes = trials.outcomes([_against(scene, float(size))] * scene.f)
            harms = [max(0.0, -found.inner / found.reference**2) if found.reference else 0.0 for found in outcomes]
            harm = float(np.dot(trials.shares, harms))
            if harm > most:
                best, most = float(size), harm
        return best, most


def _against(scene: Scene, size: float) -> Combination:
    n = scene.honest.n
    return scene.honest.combine(np.full(n, -size / n))
