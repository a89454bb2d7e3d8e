"""Directed deviation against Krum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count, check_fraction
from mixtailor.attacks._formulas import sign
from mixtailor.attacks.base import Attack, Line, Scene
from mixtailor.attacks.trials import Trials, check_target
from mixtailor.rules import Krum, Rule
from mixtailor.updates import Combination, Point, Updates

__all__ = ["FangKrum", "chosen"]


def chosen(result: Point, honest: int) -> bool:
    """Whether a result is made of Byzantine updates alone: those after the honest ones."""
    if not isinstance(result, Combination):
        return False
    used = np.nonzero(result.weights)[0]
    return bool(len(used)) and int(used[0]) >= honest


def largest_step(honest: Updates, n: int, f: int) -> float:
    r"""The bound on lambda: beyond it, Krum cannot choose the row.

    .. math:: \frac{1}{(n - 2f - 1)\sqrt d} \min_i \sum_{l \in \Gamma(i)} \lVert x_l - x_i \rVert
              + \frac{1}{\sqrt d} \max_i \lVert x_i \rVert

    with the n - f - 2 honest updates nearest to row i in :math:`\Gamma(i)`.
    """
    between = np.sort(honest.distances(2.0), axis=1)[:, 1 : n - f - 1]
    near = float(between.sum(axis=1).min()) / max(1, n - 2 * f - 1)
    return (near + float(honest.norms(2.0).max())) / math.sqrt(honest.d)


@dataclass(frozen=True)
class FangKrum(Attack):
    r"""The longest step against the signs of the honest result that Krum still chooses.

    .. math:: b = -\lambda s, \qquad s = \operatorname{sign}(R(x_1, \ldots, x_n))

    All f updates are equal. Lambda starts at the bound of the paper's theorem and is halved until the target returns a
    Byzantine update.

    Parameters
    ----------
    target : Rule, optional
        A rule that chooses one update; Krum with the attack's f by default, or with the largest that n allows.
    floor : float
        The search ends where lambda falls below this part of the bound.
    budget : int
        How many lambdas to try between the last that was not selected and the first that was; 0 in the paper.

    Examples
    --------
    >>> from mixtailor import Krum
    >>> honest = 1 + np.random.default_rng(0).normal(size=(10, 50))
    >>> byzantine = FangKrum()(honest, f=2)
    >>> bool((Krum(f=2)(np.vstack([honest, byzantine])) == byzantine[0]).all())
    True

    Notes
    -----
    The paper attacks models and steps from the last one; for gradients that is the origin. It stops at 1e-5, an
    absolute number; updates have no natural unit, so here the floor is relative to the bound. Published code adds a
    little noise to the other f - 1 updates; equal updates are closer to each other and are selected at least as often.
    `craft` reports lambda, whether the update was chosen, and the number of rule evaluations.

    References
    ----------
    .. [1] Fang, Cao, Jia, Gong, "Local Model Poisoning Attacks to Byzantine-Robust Federated Learning",
       USENIX Security 2020.
    """

    target: Rule | None = field(default=None, kw_only=True)
    floor: float = field(default=1e-5, kw_only=True)
    budget: int = field(default=0, kw_only=True)

    needs: ClassVar[str] = "the honest updates and the server's rule"

    def __post_init__(self) -> None:
        check_fraction("FangKrum", "floor", self.floor)
        check_count("FangKrum", "budget", self.budget, 0)

    def points(self, scene: Scene) -> Sequence[Point]:
        honest = scene.honest
        target = self.target or Krum(scene.f).lowered(scene.n, scene.f)
        trials = Trials(check_target(self, target, scene.n), scene)
        rule = trials.drawn()
        frame = honest.beside(sign(honest, trials.unattacked(rule)))
        line = Line(frame, np.zeros(frame.n), np.append(np.zeros(honest.n), -1.0))

        def works(step: float) -> bool:
            return chosen(trials.result([line.at(step)] * scene.f, rule), honest.n)

        bound = step = largest_step(honest, scene.n, scene.f)
        while not (found := works(step)) and step > self.floor * bound:
            step /= 2.0
        low, high = step, min(bound, 2.0 * step)
        for _ in range(self.budget if found and high > low else 0):
            middle = (low + high) / 2.0
            low, high = (middle, high) if works(middle) else (low, middle)
        facts = {"size": low, "chosen": found, "evaluations": trials.evaluations}
        return [line.at(low, **facts)] * scene.f
