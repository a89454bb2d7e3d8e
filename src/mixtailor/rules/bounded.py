"""A rule whose result is never longer than what the honest majority sent."""

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mixtailor._checks import check_f, check_positive, refuse
from mixtailor._types import Floats
from mixtailor.rules.base import Plan, Rule
from mixtailor.rules.plain import as_rule
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Combination, Point, Updates

if TYPE_CHECKING:
    from mixtailor.intake import Arrival
    from mixtailor.rules.request import Request

__all__ = ["Bounded"]


@dataclasses.dataclass(frozen=True)
class Bounded(Rule):
    r"""A rule whose result is shortened to the (f + 1)-th largest length of the updates.

    .. math:: \min\left(1, \frac{c R}{\lVert U \rVert_2}\right) U, \qquad R = \lVert x \rVert_{(n - f)}

    where U is the result of the rule inside and :math:`\lVert x \rVert_{(1)} \le \ldots \le \lVert x \rVert_{(n)}` are
    the sorted lengths. At most f of the f + 1 longest updates are Byzantine, so R is at most the longest honest length,
    whatever the others hold: one round moves a model no further than c times what one honest worker could. Needs what
    the rule needs, and ``n >= 2f + 1``. Cost: that of the rule, twice where it computes each coordinate by itself, and
    O(nd).

    Parameters
    ----------
    rule : Rule
        Any rule, also one without a bound of its own.
    f : int, optional
        How many updates may be Byzantine; by default what the rule tolerates.
    slack : float
        c, at least 1.
    limit : float, optional
        An upper bound on the length of the result in any case. `Guarded` sets it from the last rounds.

    Examples
    --------
    One far update moves the mean without limit. Here the result is as long as the second longest update.

    >>> from mixtailor import Mean
    >>> Bounded(Mean(), f=1)(np.array([[1.0, 0.0], [1.2, 0.0], [0.8, 0.1], [9e9, 0.0]])).round(3)
    array([1.2, 0. ])

    Notes
    -----
    If the rule has the coefficient :math:`\kappa`, this one has

    .. math:: \kappa' = \left( \sqrt{\kappa} + \sqrt{\frac{f}{n - 2f}} \right)^2

    Proof. Let m be the mean and :math:`\sigma^2` the variance of the honest updates, h = n - f of them, and P the
    projection onto the ball of radius cR about the origin. Projections do not enlarge distances, so
    :math:`\lVert P U - m \rVert \le \lVert P U - P m \rVert + \lVert P m - m \rVert`, which is at most
    :math:`\sqrt\kappa \sigma + (\lVert m \rVert - cR)_+`.
    Where the ball contains m, the second term is zero, and nothing is lost. Otherwise let u be the direction of m. At
    most f updates are longer than R, so at least h - f honest updates have :math:`\langle x_i, u \rangle \le R`, while
    the mean of :math:`\langle x_i, u \rangle` is :math:`\lVert m \rVert`. With a share of at least (h - f)/h at or
    below R, the variance along u is at least :math:`(\lVert m \rVert - R)^2 (h - f) / f`. So
    :math:`(\lVert m \rVert - R)_+^2 \le \sigma^2 f / (n - 2f)`. If the bound is made for t Byzantine updates and only f
    updates are Byzantine, the same steps give t/(n - f - t) under the second root. So declare a realistic f here for a
    rule that takes none, such as `Comed`. With `limit`, no coefficient is declared.

    Lengths are from the origin, so what workers send has to be gradients or differences, not models.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022, which leaves adversaries whose harm is done in one iteration open.
    """

    rule: Rule
    f: int | None = dataclasses.field(default=None, kw_only=True)
    slack: float = dataclasses.field(default=1.0, kw_only=True)
    limit: float | None = dataclasses.field(default=None, kw_only=True)

    requirement: ClassVar[str] = "what its rule needs, and n >= 2f + 1"
    cost: ClassVar[str] = "that of its rule, and O(n d)"
    lacks: ClassVar[Mapping[str, str]] = {"translation": "the length of the result is from the origin"}
    kappa_is_ours: ClassVar[bool] = True
    coefficient: ClassVar[str] = "(√κ + √(f/(n - 2f)))², κ its rule's"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", as_rule(self.rule))
        if self.rule.outermost:
            name = type(self.rule).__name__
            refuse(f"Bounded keeps nothing between rounds, and {name} does. Write Guarded({name}(...)).")
        check_slack("Bounded", self.slack)
        if self.limit is not None and not (isinstance(self.limit, (int, float)) and self.limit >= 0.0):
            refuse(f"Bounded needs limit >= 0, a length, and got limit = {self.limit!r}.")
        check_one_f("Bounded", self.f, self.rule)

    def min_rows(self) -> int:
        return max(self.rule.min_rows(), 2 * (self.declared_f() or 0) + 1)

    def tolerates(self, n: int) -> int:
        return self.rule.tolerates(n) if self.f is None else self.f

    def missing_laws(self) -> Mapping[str, str]:
        fixed = {} if self.limit is None else {"scale": "the limit is a length in the units of the updates"}
        return {**self.rule.missing_laws(), **self.lacks, **fixed}

    def decide(self, updates: Updates) -> Point:
        scale = scale_of(updates, self.tolerates(updates.n))
        return self._within(updates, self.rule.decide(updates), scale)

    def _within(self, updates: Updates, point: Point, scale: float) -> Point:
        radius = min(self.slack * scale, math.inf if self.limit is None else self.limit)
        return shortened(updates, point, radius, scale=scale)

    def plan(self, arrival: "Arrival", request: "Request", n: int, key: bytes | None = None) -> Plan:
        plan = self.rule.plan(arrival, request, n, key)
        drawn = self if plan.rule is self.rule else dataclasses.replace(self, rule=plan.rule)
        return Plan(drawn, plan.key, plan.facts)

    def kappa(self, n: int, f: int, d: int) -> float | None:
        inner, longer = self.rule.kappa(n, f, d), self.tolerates(n)  # as many rows as that may be longer than R
        if inner is None or self.limit is not None or n <= f + longer:
            return None
        return float((math.sqrt(inner) + math.sqrt(longer / (n - f - longer))) ** 2)

    # Where each update counts by its weight.

    def takes_weights(self) -> bool:
        return True

    def check_share(self, n: int, share: float) -> None:
        self.rule.check_share(n, share)

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        scale = heavy_length(updates.norms(), weighting)
        return self._within(updates, self.rule.decide_weighted(updates, weighting), scale)

    def weighted_kappa(self, share: float, d: int) -> float | None:
        inner = None if share >= 0.5 or self.limit is not None else self.rule.weighted_kappa(share, d)
        if inner is None:
            return None
        return float((math.sqrt(inner) + math.sqrt(share / (1 - 2 * share))) ** 2)


def check_slack(name: str, slack: object) -> None:
    """A slack below 1 would cut off what honest workers agree on."""
    check_positive(name, "slack", slack)
    if isinstance(slack, (int, float)) and slack < 1.0:
        refuse(f"{name} needs slack >= 1, or the bound cuts off what honest workers agree on, and got {slack}.")


def check_one_f(name: str, f: int | None, rule: Rule) -> None:
    """The f of a bound, and that of the rule inside, are one."""
    if f is None:
        return
    check_f(name, f)
    inner = rule.declared_f()
    if inner is not None and inner != f:
        refuse(f"{name} needs one f for itself and for {rule!r} and got {f} and {inner}.")


def scale_of(updates: Updates, f: int) -> float:
    """The (f + 1)-th largest length of the updates: at most f of them are longer."""
    return float(np.sort(updates.norms())[max(updates.n - f - 1, 0)])


def shortened(updates: Updates, point: Point, radius: float, **facts: object) -> Point:
    """A point, shortened to a radius where it is longer. The facts say by what factor."""
    length = math.sqrt(max(float(point.updates.inner(point)[0, 0]), 0.0))
    factor = radius / length if length > radius else 1.0
    known = {**point.facts, **facts, "shortened": factor}
    if factor == 1.0:
        return point.with_facts(**known)
    if isinstance(point, Combination):
        return dataclasses.replace(point, weights=point.weights * factor, facts=known)
    return updates.formula(lambda _start, _stop, value: value * factor, point, **known)


def heavy_length(lengths: Floats, weighting: Weighting) -> float:
    """The least length that updates with no more than the Byzantine part of the weight exceed."""
    order = np.argsort(lengths, kind="stable")
    above = weighting.total - np.cumsum(weighting.mass[order])
    return float(lengths[order[int(np.argmax(above <= weighting.faulty * (1 + 1e-9) + 1e-12 * weighting.total))]])
