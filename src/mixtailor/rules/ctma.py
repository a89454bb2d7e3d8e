"""CTMA: the mean of the updates nearest to what another rule returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mixtailor._checks import refuse
from mixtailor.kernels.selection import closest
from mixtailor.kernels.weighted import kept_by_rank
from mixtailor.rules.base import Plan, Rule
from mixtailor.rules.geometric_median import GeometricMedian
from mixtailor.rules.plain import as_rule
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Point, Updates

if TYPE_CHECKING:
    from mixtailor.intake import Arrival
    from mixtailor.rules.request import Request

__all__ = ["CTMA"]


@dataclass(frozen=True)
class CTMA(Rule):
    r"""The mean of the n - f updates nearest to the result of another rule: centered trimmed meta-aggregation.

    .. math:: U = \frac{1}{n - f} \sum_{i \in N(c)} x_i, \qquad c = R(x_1, \ldots, x_n)

    where :math:`N(c)` holds the ``n - f`` updates nearest to c. Needs ``n >= 2f + 1``, and what the rule needs. Cost:
    that of the rule, and O(nd).

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    rule : Rule
        R, any rule or callable; its own f must not be below this one.

    Examples
    --------
    >>> from mixtailor.rules import Comed
    >>> CTMA(f=1, rule=Comed())(np.array([[1.0], [2.0], [3.0], [6.0], [9e9]]))
    array([3.])

    Notes
    -----
    In one coordinate, around the median, this is `Meamed`; around a trusted vector it is `MoNNA`. It averages nearest
    updates after a rule; `NNM` does so before a rule, at O(n^2 d).

    The coefficient is ours: :math:`\frac{4 f}{n - f} (1 + \kappa)` with the :math:`\kappa` of the rule. Of the honest
    updates, z <= f are left out, and as many Byzantine updates are included. None of these is farther from c than any
    of those left out. So :math:`U - \bar x` is :math:`\frac{1}{n - f}` times a sum of 2z differences to c, and by
    Cauchy's inequality
    :math:`\lVert U - \bar x \rVert^2 \le \frac{4 z}{(n - f)^2} \sum_{i \text{ honest}} \lVert x_i - c \rVert^2`, which
    is at most :math:`\frac{4 f}{n - f} (v + \kappa v)` with v the honest variance. The paper [1]_ has the same order, f
    / n times (1 + kappa), with a larger constant and weights on the updates.

    References
    ----------
    .. [1] Dahan, Levy, "Fault Tolerant ML: Efficient Meta-Aggregation and Synchronous Training", ICML 2024,
       arXiv:2405.14759.
    """

    f: int
    rule: Rule = field(default=GeometricMedian(), kw_only=True)

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "that of its rule, and O(n d)"
    kappa_is_ours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rule", as_rule(self.rule))
        inner = self.rule.declared_f()
        if inner is not None and inner < self.f:
            refuse(f"CTMA(f={self.f}) needs a rule that tolerates as many updates and got {self.rule!r}. Raise its f.")

    def min_rows(self) -> int:
        return max(2 * self.f + 1, self.rule.min_rows())

    def needs(self) -> str:
        return self.requirement if self.rule.min_rows() <= 2 * self.f + 1 else self.rule.needs()

    @property
    def robust(self) -> bool:
        return self.rule.robust

    def missing_laws(self) -> Mapping[str, str]:
        return self.rule.missing_laws()

    def decide(self, updates: Updates) -> Point:
        scores = updates.distances_to(self.rule.decide(updates))
        return updates.mean(closest(scores, updates.n - self.f), scores=scores)

    def takes_weights(self) -> bool:
        return True

    def check_share(self, n: int, share: float) -> None:
        self.rule.check_share(n, share)

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        scores = updates.distances_to(self.rule.decide_weighted(updates, weighting))
        wanted = weighting.total - weighting.faulty
        kept = kept_by_rank(np.argsort(scores, kind="stable"), weighting.mass, wanted)
        return updates.combine(kept / wanted, scores=scores)

    def weighted_kappa(self, share: float, d: int) -> float | None:
        inner = self.rule.weighted_kappa(share, d)
        return None if inner is None else 4 * share / (1 - share) * (1 + inner)

    def plan(self, arrival: "Arrival", request: "Request", n: int, key: bytes | None = None) -> Plan:
        plan = self.rule.plan(arrival, request, n, key)
        return Plan(self if plan.rule is self.rule else replace(self, rule=plan.rule), plan.key, plan.facts)

    def kappa(self, n: int, f: int, d: int) -> float | None:
        inner = self.rule.kappa(n, f, d)
        return None if inner is None else 4 * f / (n - f) * (1 + inner)
