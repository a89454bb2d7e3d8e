"""The attacker that mimics the server's own randomness."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.random_epsilon import check_epsilons
from mixtailor.attacks.tailored import Tailored
from mixtailor.attacks.trials import Trials, check_target
from mixtailor.rules import Rule
from mixtailor.updates import Point

__all__ = ["SubsampleMimic"]


@dataclass(frozen=True)
class SubsampleMimic(Attack):
    r"""The tailored attack with the epsilon that does most harm on average over draws like the server's.

    .. math:: b = -\epsilon^* \bar x, \qquad
        \epsilon^* = \arg\min_\epsilon \frac1T \sum_{t=1}^T
        \langle R(x_1, \ldots, b(\epsilon), \ldots; \omega_t), \bar x \rangle

    The attacker knows the rule and how it draws, not what it will draw, so it draws :math:`\omega_1, \ldots, \omega_T`
    itself. Made for `Subsampled`, whose draws all have the structure of one rule; it takes any target.

    Parameters
    ----------
    target : Rule
        A rule that draws: `Subsampled`, or a MixTailor.
    epsilons : sequence of float
        The values to try.
    draws : int
        T.

    Examples
    --------
    >>> from mixtailor import Krum, Subsampled
    >>> honest = 0.3 + np.random.default_rng(0).normal(size=(10, 100))
    >>> server = Subsampled(Krum(f=2), k=8)
    >>> made = SubsampleMimic(server).craft(honest, f=2, rng=0)
    >>> made.facts["value"] < 0.0, made.facts["evaluations"]
    (True, 64)

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022, the section on attack complexity.
    """

    target: Rule
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 10.0)
    draws: int = field(default=16, kw_only=True)

    needs: ClassVar[str] = "the honest updates and the server's rule"

    def __post_init__(self) -> None:
        if not isinstance(self.target, Rule):
            raise TypeError(f"SubsampleMimic needs target= as a rule that draws and got {self.target!r}.")
        object.__setattr__(self, "epsilons", check_epsilons("SubsampleMimic", self.epsilons))
        check_count("SubsampleMimic", "draws", self.draws)

    def points(self, scene: Scene) -> Sequence[Point]:
        target = check_target(self, self.target, scene.n)
        # Each has randomness of its own, the same for all epsilons.
        draws = [Trials(target, scene) for _ in range(self.draws)]
        line = Tailored().line(scene)
        tried = {}
        for epsilon in self.epsilons:
            points = [line.at(epsilon)] * scene.f
            tried[epsilon] = float(np.mean([trials.outcome(points, target).inner for trials in draws]))
        worst = min(tried, key=lambda epsilon: tried[epsilon])
        evaluations = sum(trials.evaluations for trials in draws)
        facts = {"epsilon": worst, "value": tried[worst], "tried": tried, "evaluations": evaluations}
        return [line.at(worst, **facts)] * scene.f
