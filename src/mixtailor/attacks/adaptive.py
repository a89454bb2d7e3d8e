"""The adaptive attack: the worst of several epsilons, tried on the server's rule every round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, get_args

import numpy as np

from mixtailor._checks import refuse
from mixtailor.attacks.base import Attack, Reference, Scene
from mixtailor.attacks.line_search import Against
from mixtailor.attacks.random_epsilon import check_epsilons
from mixtailor.attacks.tailored import Scale, Tailored, check_scale
from mixtailor.attacks.trials import Trials, check_target
from mixtailor.rules import Rule
from mixtailor.updates import Point

__all__ = ["Adaptive"]

Value = Callable[[Sequence[Point]], float]


@dataclass(frozen=True)
class Adaptive(Attack):
    r"""The tailored attack with the epsilon that does most harm this round.

    .. math:: b = -\epsilon^* \bar x, \qquad
        \epsilon^* = \arg\min_{\epsilon} \sum_m p_m \langle R_m(x_1, \ldots, b(\epsilon), \ldots), g \rangle

    Against one rule the sum has one term. Against a MixTailor it is over one rule that the attacker draws itself, which
    is the paper's attacker, or over the whole pool, which is stronger.

    Parameters
    ----------
    target : Rule
        The rule or the MixTailor that the server uses.
    epsilons : sequence of float
        The values to try.
    reference : {"mean", "unattacked"}
        g: the mean of the honest updates, or the rule's result without an attack. The paper's text mentions both.
    against : {"drawn", "pool"}
        One rule that the attacker draws, or all of them by their probabilities.
    scale : {"mean", "sum/f"}
        As in `Tailored`.

    Examples
    --------
    Against Krum, updates close to the others do most harm; against the median, far ones do.

    >>> from mixtailor import Comed, Krum
    >>> honest = 1.0 + np.random.default_rng(0).normal(size=(10, 200))
    >>> [Adaptive(rule).craft(honest, f=2).facts["epsilon"] for rule in (Krum(f=2), Comed())]
    [0.1, 10.0]

    Notes
    -----
    The updates point *against* the mean. In the code that the paper's authors published the sign of this attack is
    wrong, so that it helps the training it is meant to harm. The attacker's draw comes from its own randomness (`rng`),
    never from the server's. `craft` reports the epsilon, all values that were tried and the number of rule evaluations.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022, the section on the adaptive attack.
    """

    target: Rule
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 10.0)
    reference: Reference = field(default="mean", kw_only=True)
    against: Against = field(default="drawn", kw_only=True)
    scale: Scale = field(default="mean", kw_only=True)

    needs: ClassVar[str] = "the honest updates and the server's rules"

    def __post_init__(self) -> None:
        if not isinstance(self.target, Rule):
            raise TypeError(f"Adaptive needs target= as a rule or a MixTailor and got {self.target!r}.")
        object.__setattr__(self, "epsilons", check_epsilons("Adaptive", self.epsilons))
        check_scale("Adaptive", self.scale)
        if self.reference not in get_args(Reference):
            refuse(f"Adaptive needs reference='mean' or 'unattacked' and got {self.reference!r}.")
        if self.against not in get_args(Against):
            refuse(f"Adaptive needs against='drawn' or 'pool' and got {self.against!r}.")

    def points(self, scene: Scene) -> Sequence[Point]:
        trials = Trials(check_target(self, self.target, scene.n), scene)
        if self.against == "drawn":
            trials = Trials(trials.drawn(), scene)
        value = self._by_mean(trials) if self.reference == "mean" else self._by_unattacked(trials)
        line = Tailored(scale=self.scale).line(scene)
        tried = {epsilon: value([line.at(epsilon)] * scene.f) for epsilon in self.epsilons}
        worst = min(tried, key=lambda epsilon: tried[epsilon])
        facts: dict[str, object] = {"epsilon": worst, "value": tried[worst], "tried": tried}
        if self.against == "drawn":
            facts["rule"] = trials.rules[0]
        return [line.at(worst, **facts, evaluations=trials.evaluations)] * scene.f

    def _by_mean(self, trials: Trials) -> Value:
        return lambda points: float(np.dot(trials.shares, [outcome.inner for outcome in trials.outcomes(points)]))

    def _by_unattacked(self, trials: Trials) -> Value:
        rules = dict.fromkeys(trials.rules)
        unattacked = {rule: trials.unattacked(rule) for rule in rules}

        def value(points: Sequence[Point]) -> float:
            inner = {rule: _inner(trials.result(points, rule), unattacked[rule]) for rule in rules}
            return float(np.dot(trials.shares, [inner[rule] for rule in trials.rules]))

        return value


def _inner(result: Point, reference: Point) -> float:
    return float(result.updates.inner(result, reference)[0, 1])
