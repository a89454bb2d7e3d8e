"""The worst place on an attack's line, found by trying the target."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from mixtailor._checks import check_count, check_positive, refuse
from mixtailor.attacks.base import Attack, Line, Linear, Scene
from mixtailor.attacks.trials import Outcome, Trials, check_target
from mixtailor.rules import Rule
from mixtailor.updates import Point

__all__ = ["Against", "LineSearch", "golden"]

Against = Literal["pool", "drawn"]

_GOLDEN = (3.0 - math.sqrt(5.0)) / 2.0


def golden(value: Callable[[float], float], low: float, best: tuple[float, float], high: float, budget: int) -> None:
    """Golden section about the best size so far, given with its value, on the scale of logarithms.

    The best size stays inside the bracket: a rule that selects gives one value on both sides of a narrow window, and
    two other sizes would not say on which side of them it is. `value` remembers what it was asked.
    """
    a, b, (middle, least) = math.log(low), math.log(high), (math.log(best[0]), best[1])
    for _ in range(budget):
        below = middle - a > b - middle
        here = middle + _GOLDEN * ((a if below else b) - middle)
        found = value(math.exp(here))
        if found < least:
            a, b = (a, middle) if below else (middle, b)
            middle, least = here, found
        elif below:
            a = here
        else:
            b = here


@dataclass(frozen=True)
class LineSearch(Attack):
    r"""An attack whose size is chosen each round by trying it on the server's rule.

    .. math:: b(t) = a + t v, \qquad t^* = \arg\min_t \langle R(x_1, \ldots, b(t), \ldots), \bar x \rangle

    A grid of sizes, equally spaced in their logarithm, and golden section around the best of them. Where p = 2 and
    updates are combinations, a candidate costs no pass over the coordinates.

    Parameters
    ----------
    attack : Linear
        The attack that gives the line: `ALIE`, `Tailored`, `MinMax` or `MinSum`. Its own size is among those tried.
    target : Rule
        The rule or the MixTailor that the server uses.
    low, high : float
        The sizes to search between.
    budget : int
        How many sizes to try.
    objective : {"inner", "distance"}
        Minimise the inner product with the honest mean, or maximise the distance to it.
    against : {"pool", "drawn"}
        Against a MixTailor: the expectation over its rules, or one rule that the attacker draws.

    Examples
    --------
    >>> from mixtailor import Comed
    >>> from mixtailor.attacks import ALIE
    >>> honest = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> plain = Comed()(np.vstack([honest, ALIE(z=0.1)(honest, f=1)]))
    >>> searched = Comed()(np.vstack([honest, LineSearch(ALIE(z=0.1), Comed())(honest, f=1)]))
    >>> bool(searched[0] < plain[0])
    True

    Notes
    -----
    Allouah et al. [1]_ search over factors of ALIE and of the tailored attack for the largest distance to the honest
    mean, ``objective="distance"``; MixTailor's definitions use the inner product. The value is not unimodal in t, hence
    the grid. `craft` reports the size, the value and the number of rule evaluations.

    References
    ----------
    .. [1] Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by Mixing: A Recipe for Optimal Byzantine ML
       under Heterogeneity", AISTATS 2023.
    """

    attack: Linear
    target: Rule
    low: float = field(default=1e-2, kw_only=True)
    high: float = field(default=1e2, kw_only=True)
    budget: int = field(default=24, kw_only=True)
    objective: Literal["inner", "distance"] = field(default="inner", kw_only=True)
    against: Against = field(default="pool", kw_only=True)

    needs: ClassVar[str] = "the honest updates and the server's rule"

    def __post_init__(self) -> None:
        if not isinstance(self.attack, Linear):
            raise TypeError(
                f"LineSearch needs an attack whose rows lie on a line, such as ALIE, and got {self.attack!r}."
            )
        if not isinstance(self.target, Rule):
            raise TypeError(f"LineSearch needs target= as a rule or a MixTailor and got {self.target!r}.")
        check_positive("LineSearch", "low", self.low)
        check_positive("LineSearch", "high", self.high)
        check_count("LineSearch", "budget", self.budget, 4)
        if self.low >= self.high:
            refuse(f"LineSearch needs low < high and got low = {self.low} and high = {self.high}.")
        if self.objective not in ("inner", "distance"):
            refuse(f"LineSearch needs objective='inner' or 'distance' and got {self.objective!r}.")
        if self.against not in ("pool", "drawn"):
            refuse(f"LineSearch needs against='pool' or 'drawn' and got {self.against!r}.")

    def points(self, scene: Scene) -> Sequence[Point]:
        trials = Trials(check_target(self, self.target, scene.n), scene)
        line = self.attack.line(scene)
        rule = trials.drawn() if self.against == "drawn" else None
        tried: dict[float, float] = {}

        def value(t: float) -> float:
            points = [line.at(t)] * scene.f
            outcomes = trials.outcomes(points) if rule is None else [trials.outcome(points, rule)]
            shares = trials.shares if rule is None else (1.0,)
            tried[t] = float(np.dot(shares, [self._loss(outcome) for outcome in outcomes]))
            return tried[t]

        self._search(value, tried, self._own(scene, line))
        size = min(tried, key=lambda t: tried[t])
        facts = {"size": size, "value": tried[size], "tried": dict(tried), "evaluations": trials.evaluations}
        return [line.at(size, **facts)] * scene.f

    def _own(self, scene: Scene, line: Line) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the formula gives no attack is no matter to a search
            return self.attack.size(scene, line)

    def _search(self, value: Callable[[float], float], tried: dict[float, float], own: float) -> None:
        count = max(2, self.budget // 2)
        for t in np.geomspace(self.low, self.high, count):
            value(float(t))
        value(own)
        best = min(tried, key=lambda t: tried[t])
        step = (self.high / self.low) ** (1.0 / (count - 1))
        left = self.budget - len(tried)
        if best > 0.0 and left >= 2:
            golden(value, best / step, (best, tried[best]), best * step, left)

    def _loss(self, outcome: Outcome) -> float:
        return outcome.inner if self.objective == "inner" else -outcome.distance
