"""`PreAggregation`: what happens to the updates before a rule sees them. ``NNM(f=2) >> Krum(f=2)`` is a rule."""

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, overload

from mixtailor._checks import check_rows, refuse
from mixtailor.rules.base import Plan, Rule
from mixtailor.rules.part import Asks, Part
from mixtailor.rules.plain import as_rule, check_inner
from mixtailor.rules.promises import NEVER, formula_of, least_rows
from mixtailor.rules.weighting import WEIGHTED, Weighting
from mixtailor.updates import Point, Updates
from mixtailor.updates.pairs import FEWEST

if TYPE_CHECKING:
    from mixtailor.intake import Arrival
    from mixtailor.rules.request import Request

__all__ = ["Both", "Chain", "PreAggregation"]


class PreAggregation(Part):
    """From updates to updates, lazily: `prepare` queries what it decides from and returns a view.

    Laws: permutation, translation and scale as for rules (`lacks` names those that do not hold, and why). `after` says
    what the rule behind it must tolerate: of n updates with f faulty ones, how many come out, and how many of those may
    be faulty. All randomness comes from ``updates.random``.
    """

    cost: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def after(self, n: int, f: int) -> tuple[int, int]:
        """How many updates come out, and how many of them may be faulty."""

    @abstractmethod
    def prepare(self, updates: Updates) -> Updates:
        """The updates that the rule behind it sees."""

    @property
    def bounds(self) -> bool:
        """Whether no update comes out of it longer than the longest honest one, or than a fixed length."""
        return False

    if not TYPE_CHECKING:  # a type checker refuses the call itself

        def __call__(self, *updates: Any, **request: Any) -> NoReturn:
            """Refused: what a pre-aggregation returns is not an update. Put a rule behind it by ``>>``."""
            raise TypeError(
                f"{self!r} is a pre-aggregation: it needs a rule behind it to give an update. Write "
                f"({self!r} >> mixtailor.Comed())(updates)."
            )

    def prepare_weighted(self, updates: Updates, weighting: Weighting) -> tuple[Updates, Weighting]:
        """As `prepare`, where each update counts by its weight; with the weights of what comes out."""
        refuse(f"{self!r} has no form with weights. {WEIGHTED}")

    def weighted_kappa(self, share: float, d: int, behind: Rule) -> float | None:
        """The coefficient of this in front of a rule, where Byzantine updates have a share of the weight."""
        return None

    def kappa(self, n: int, f: int, d: int, behind: Rule) -> float | None:
        """The coefficient of this in front of a rule; None if none is published."""
        return None

    def missing_laws(self) -> Mapping[str, str]:
        """The laws that do not hold, and why."""
        return self.lacks

    @overload
    def __rshift__(self, behind: "PreAggregation") -> "Both": ...
    @overload
    def __rshift__(self, behind: "Rule | Callable[[Any], Any]") -> "Chain": ...
    def __rshift__(self, behind: Any) -> "Both | Chain":
        if isinstance(behind, PreAggregation):
            return Both(self, behind)
        return Chain(self, as_rule(behind))

    def __rrshift__(self, before: object) -> NoReturn:
        raise TypeError(
            f"{self!r} goes in front of a rule, and {before!r} is in front of it. Write {self!r} >> {before!r}."
        )


@dataclasses.dataclass(frozen=True)
class Both(PreAggregation):
    """Two pre-aggregations, one after the other."""

    first: PreAggregation
    second: PreAggregation

    cost: ClassVar[str] = "the sum of both"

    def after(self, n: int, f: int) -> tuple[int, int]:
        return self.second.after(*self.first.after(n, f))

    def __post_init__(self) -> None:
        _check_one_f(self, self.first, self.second)

    def asks(self) -> Asks:
        return _in_front(self.first, self.second)

    def prepare(self, updates: Updates) -> Updates:
        f = self.declared_f()
        second = self.second if f is None else self.second.with_f(self.first.after(updates.n, f)[1])
        return second.prepare(self.first.prepare(updates))

    def kappa(self, n: int, f: int, d: int, behind: Rule) -> float | None:
        return self.first.kappa(n, f, d, Chain(self.second, behind))

    @property
    def bounds(self) -> bool:
        return self.first.bounds or self.second.bounds

    def missing_laws(self) -> Mapping[str, str]:
        return {**self.first.missing_laws(), **self.second.missing_laws()}

    def __repr__(self) -> str:
        return f"{self.first!r} >> {self.second!r}"


@dataclasses.dataclass(frozen=True)
class Chain(Rule):
    """A rule behind a pre-aggregation; made by ``>>``.

    Parameters
    ----------
    before : PreAggregation
    rule : Rule
    f_after : {"mapped", "declared"}
        Whether the rule gets the number of faulty updates among those that *it sees*, or keeps the f that it was
        declared with (as in the experiments of the MixTailor paper).
    """

    before: PreAggregation
    rule: Rule
    f_after: Literal["mapped", "declared"] = dataclasses.field(default="mapped", kw_only=True)
    _least: list[int] = dataclasses.field(default_factory=list, init=False, repr=False, compare=False)
    _behind: dict[int, tuple[int, Rule]] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    requirement: ClassVar[str] = "what the rule needs, of the rows and faults that reach it"
    cost: ClassVar[str] = "the sum of both"

    def __post_init__(self) -> None:
        if self.f_after not in ("mapped", "declared"):
            refuse(f"f_after needs to be 'mapped' or 'declared' and is {self.f_after!r}.")
        check_inner(repr(self.before), self.rule)
        _check_one_f(self, self.before, self.rule)

    def _mapped(self, n: int, f: int) -> tuple[int, Rule]:
        rows, faulty = self.before.after(n, f)
        if self.f_after == "declared" or self.rule.declared_f() is None:
            return rows, self.rule
        return rows, self.rule.with_f(faulty)

    def _seen(self, n: int) -> tuple[int, Rule]:
        """The number of updates that the rule sees when n arrive, and the rule with the f that it has to tolerate."""
        if n not in self._behind:  # asked twice at every call
            f = self.declared_f()
            self._behind[n] = self._mapped(n, self.tolerates(n) if f is None else f)
        return self._behind[n]

    def min_rows(self) -> int:
        if not self._least:  # asked at every call, and a search
            self._least.append(self._least_rows())
        return self._least[0]

    def _least_rows(self) -> int:
        f = self.declared_f() or 0
        # Rows behind a pre-aggregation never get fewer as n grows.
        found = least_rows(lambda n: self._fits(n, f))
        if found == NEVER:
            refuse(f"{self!r} needs more rows than any n gives it ({self._formula()}). Lower f.")
        return found

    def _fits(self, n: int, f: int) -> bool:
        rows, rule = self._mapped(n, f)
        faulty = f if self.f_after == "declared" else self.before.after(n, f)[1]
        tolerated = not rule.robust or faulty <= rule.tolerates(rows)
        return rule.min_rows() <= rows and tolerated

    def needs(self) -> str:
        f, least = self.declared_f() or 0, self.min_rows()
        if least > 1:
            rows, rule = self._mapped(least - 1, f)
            if rule.min_rows() <= rows:  # what is missing is not the rule's own need: it has to tolerate f
                return formula_of(least, f)
        return self._formula()

    def _formula(self) -> str:
        return f"{self.rule.requirement} behind {self.before!r}"

    def tolerates(self, n: int) -> int:
        f = self.declared_f()
        if f is not None:
            rows, rule = self._mapped(n, f)
            faulty = f if self.f_after == "declared" else self.before.after(n, f)[1]
            return f if self.before.bounds or faulty <= rule.tolerates(rows) else 0
        if not self.rule.robust:
            return 0
        most = 0
        while most < n and self._fits(n, most + 1):
            most += 1
        return most

    @property
    def robust(self) -> bool:
        return self.rule.robust or self.before.bounds

    def asks(self) -> Asks:
        return _in_front(self.before, self.rule)

    def decide(self, updates: Updates) -> Point:
        promised, rule = self._seen(updates.n)
        if updates.n >= FEWEST and 2.0 in self.before.asks().norms & rule.asks().norms:
            updates.distances(2.0)  # those between mixed updates follow from these, and a second reading is saved
        prepared = self.before.prepare(updates)
        if prepared.n < promised:  # a filter removed updates that it does not promise to keep
            check_rows(rule, self.needs(), rule.min_rows(), prepared.n)
        return rule.decide(prepared)

    def kappa(self, n: int, f: int, d: int) -> float | None:
        return self.before.kappa(n, f, d, self.rule)

    def takes_weights(self) -> bool:
        return True

    def check_share(self, n: int, share: float) -> None:
        self.rule.check_share(n, share)

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        return self.rule.decide_weighted(*self.before.prepare_weighted(updates, weighting))

    def weighted_kappa(self, share: float, d: int) -> float | None:
        return self.before.weighted_kappa(share, d, self.rule)

    def missing_laws(self) -> Mapping[str, str]:
        return {**self.before.missing_laws(), **self.rule.missing_laws()}

    def plan(self, arrival: "Arrival", request: "Request", n: int, key: bytes | None = None) -> Plan:
        rows, rule = self._seen(n)
        plan = rule.plan(arrival, request, rows, key)
        if plan.rule is rule:
            return Plan(self, plan.key, plan.facts)
        f = self.declared_f()
        drawn = plan.rule if f is None else plan.rule.with_f(f)
        return Plan(Chain(self.before, drawn, f_after=self.f_after), plan.key, plan.facts)

    def __repr__(self) -> str:
        return f"{self.before!r} >> {self.rule!r}"


def _in_front(first: Part, behind: Part) -> Asks:
    """What two parts ask of the updates that the first of them is given: the other one sees prepared updates."""
    asked = first.asks()
    return Asks(asked.norms, (asked | behind.asks()).reference)


def _check_one_f(whole: Part, one: Part, other: Part) -> None:
    """Both sides of >> declare the f of the updates as received; `after` maps it on the way."""
    first, second = one.declared_f(), other.declared_f()
    if first is not None and second is not None and first != second:
        refuse(f"{whole!r} needs one f on both sides of >> and got {first} and {second}.")
