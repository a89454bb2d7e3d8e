"""A rule on some of the rows, drawn at random."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.rules.base import Plan, Rule
from mixtailor.rules.plain import as_rule
from mixtailor.updates import Combination, Point, Updates

if TYPE_CHECKING:
    from mixtailor.intake import Arrival
    from mixtailor.rules.request import Request

__all__ = ["Subsampled"]


@dataclasses.dataclass(frozen=True)
class Subsampled(Rule):
    r"""A rule on k updates drawn at random, without replacement.

    .. math:: R(x_{i_1}, \ldots, x_{i_k}), \qquad \{i_1, \ldots, i_k\} \text{ uniform among the k-subsets}

    Needs ``n >= k``, and k updates must be enough for the rule and its f. Cost: that of the rule on k updates.

    Parameters
    ----------
    rule : Rule
        The rule that aggregates the k updates.
    k : int
        How many updates are drawn.

    Examples
    --------
    >>> from mixtailor import Comed
    >>> updates = np.array([[1.0], [1.0], [1.0], [1.0], [90.0]])
    >>> Subsampled(Comed(), 3)(updates)
    array([1.])

    Notes
    -----
    This randomises the updates in place of the rule, which the MixTailor paper [1]_ argues against: the attacker knows
    the rule, an attack on it works for most of the draws, and all f Byzantine updates may be among the k, so that f
    stays the same with fewer updates. It is included for comparisons.

    Updates that are not drawn are not read, so that NaN in them is not found. If drawn updates are removed because they
    prove a fault, k updates are drawn again from the remaining ones, or all of them are used if fewer than k remain.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022.
    """

    rule: Rule
    k: int

    requirement: ClassVar[str] = "n >= k"
    cost: ClassVar[str] = "that of the rule on k rows"
    reads_all: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", as_rule(self.rule))
        check_count("Subsampled", "k", self.k)
        if self.k < self.rule.min_rows():
            refuse(
                f"Subsampled needs k >= {self.rule.min_rows()}, the rows that {self.rule!r} needs "
                f"({self.rule.needs()}), since all faulty rows may be drawn, and got k = {self.k}."
            )

    def min_rows(self) -> int:
        return self.k

    def tolerates(self, n: int) -> int:
        return self.rule.tolerates(min(n, self.k))

    @property
    def robust(self) -> bool:
        return self.rule.robust

    def missing_laws(self) -> Mapping[str, str]:
        return self.rule.missing_laws()

    def decide(self, updates: Updates) -> Point:
        n = updates.n
        drawn = np.sort(updates.random.choice(n, size=min(self.k, n), replace=False))
        point = self.rule.decide(updates.take(drawn))
        # The rule counts the rows it was given; what it reports of them has to be of the rows that are here.
        facts: dict[str, Any] = dict(point.facts)
        if "selected" in facts:
            facts["selected"] = drawn[np.asarray(facts["selected"], np.intp)]
        elif not isinstance(point, Combination):
            facts["selected"] = drawn
        scores = facts.pop("scores", None)
        if scores is not None and len(np.asarray(scores)) == len(drawn):
            facts["scores"] = np.full(n, np.nan)
            facts["scores"][drawn] = scores
        return dataclasses.replace(point, facts=facts)

    def plan(self, arrival: "Arrival", request: "Request", n: int, key: bytes | None = None) -> Plan:
        plan = self.rule.plan(arrival, request, min(n, self.k), key)
        return Plan(self if plan.rule is self.rule else Subsampled(plan.rule, self.k), plan.key, plan.facts)
