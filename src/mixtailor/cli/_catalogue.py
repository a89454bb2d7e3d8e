"""What there is: every rule, pre-aggregation and attack, with what its class says of itself."""

import dataclasses
from typing import Any

from mixtailor import attacks as attack_package
from mixtailor.cli._docstrings import Docstring, parsed, short_reference
from mixtailor.cli._formulas import Letter, formula
from mixtailor.mixing import registry

__all__ = ["AttackEntry", "PreAggregationEntry", "RuleEntry", "attacks", "preaggregations", "rules"]

NONE_PUBLISHED = "none published"


def _stem(kind: type[Any]) -> str:
    """The file that a class has to itself, which its page is named after."""
    return kind.__module__.rpartition(".")[2]


@dataclasses.dataclass(frozen=True)
class RuleEntry:
    """A rule in a table.

    Attributes
    ----------
    name : str
        As `make_rule` and the command line take it.
    kind : type
        The class.
    requirement, tolerates, cost : str
        What n needs to be, how many Byzantine updates are tolerated, and what it costs.
    coefficient : str or None
        kappa as a formula; None where none is published.
    reference : str
        The paper that introduced it, in short.
    doc : Docstring
    """

    name: str
    kind: type[Any]
    requirement: str
    tolerates: str
    cost: str
    coefficient: str | None
    reference: str
    doc: Docstring

    @property
    def page(self) -> str:
        """The name of its page."""
        return _stem(self.kind)

    def plain(self) -> dict[str, object]:
        """The entry in types that JSON knows."""
        return {
            "name": self.name,
            "class": self.kind.__name__,
            "summary": self.doc.summary,
            "requirement": self.requirement,
            "tolerates": self.tolerates,
            "cost": self.cost,
            "coefficient": self.coefficient,
            "reference": self.doc.references[0] if self.doc.references else None,
        }


@dataclasses.dataclass(frozen=True)
class PreAggregationEntry:
    """A pre-aggregation in a table; `after` is what it makes of (n, f)."""

    name: str
    kind: type[Any]
    after: str
    cost: str
    coefficient: str | None
    reference: str
    doc: Docstring

    @property
    def page(self) -> str:
        """The name of its page."""
        return _stem(self.kind)

    def plain(self) -> dict[str, object]:
        """The entry in types that JSON knows."""
        return {
            "name": self.name,
            "class": self.kind.__name__,
            "summary": self.doc.summary,
            "after": self.after,
            "cost": self.cost,
            "coefficient": self.coefficient,
            "reference": self.doc.references[0] if self.doc.references else None,
        }


@dataclasses.dataclass(frozen=True)
class AttackEntry:
    """An attack in a table."""

    name: str
    kind: type[Any]
    needs: str
    alone: bool
    reference: str
    doc: Docstring

    @property
    def page(self) -> str:
        """The name of its page."""
        return _stem(self.kind)

    def plain(self) -> dict[str, object]:
        """The entry in types that JSON knows."""
        return {
            "name": self.name,
            "class": self.kind.__name__,
            "summary": self.doc.summary,
            "needs": self.needs,
            "alone": self.alone,
            "reference": self.doc.references[0] if self.doc.references else None,
        }


def rules() -> list[RuleEntry]:
    """Every rule that this package exports, by name."""
    return [_rule(name, kind) for name, kind in sorted(registry.own_rules().items())]


def preaggregations() -> list[PreAggregationEntry]:
    """Every pre-aggregation that this package exports, by name."""
    return [_preaggregation(name, kind) for name, kind in sorted(registry.own_preaggregations().items())]


def attacks() -> list[AttackEntry]:
    """Every attack that this package exports, by name."""
    found = attack_package.registry.own_attacks()
    return [_attack(name, kind) for name, kind in sorted(found.items())]


def _blank(kind: type[Any]) -> Any:
    """An instance that knows no more than its defaults, which is all that a formula may use."""
    return object.__new__(kind)


def _rule(name: str, kind: type[Any]) -> RuleEntry:
    doc = parsed(kind)
    n, f = Letter.named("n"), Letter.named("f")
    # Around any rule, the coefficient depends on that of the rule.
    required = [item.name for item in dataclasses.fields(kind) if item.default is dataclasses.MISSING]
    around = required == ["rule"] or hasattr(kind, "coefficient")
    coefficient = None if around else formula(kind.kappa(_blank(kind), n, f, 1))
    return RuleEntry(name, kind, kind.requirement, _tolerates(kind, n), kind.cost, coefficient, _reference(doc), doc)


def _tolerates(kind: type[Any], n: Letter) -> str:
    fields = {item.name for item in dataclasses.fields(kind)}
    if hasattr(kind, "tolerated"):
        return str(kind.tolerated)
    if "rule" in fields and "f" not in fields:
        return "what its rule does"
    if "f" in fields:
        return "f" if _blank(kind).robust else "no bound known"
    found = formula(kind.tolerates(_blank(kind), n)) or ""
    return found if found != "0" else "none"


class _Behind:
    """A rule behind a pre-aggregation, of which nothing is known but its coefficient."""

    def kappa(self, n: Letter, f: Letter, d: int) -> Letter:
        return Letter.named("kappa")


def _preaggregation(name: str, kind: type[Any]) -> PreAggregationEntry:
    doc = parsed(kind)
    n, f = Letter.named("n"), Letter.named("f")
    coefficient = formula(kind.kappa(_blank(kind), n, f, 1, _Behind()))
    return PreAggregationEntry(name, kind, _after(kind), kind.cost, coefficient, _reference(doc), doc)


def _after(kind: type[Any]) -> str:
    """What comes out of (n, f). Whole parameters stand as letters: the s of Bucketing and Resampling."""
    instance = _blank(kind)
    for item in dataclasses.fields(kind):
        if item.name in ("size", "repeats"):
            object.__setattr__(instance, item.name, Letter.named("s"))
    rows, faulty = kind.after(instance, Letter.named("n"), Letter.named("f"))
    return f"{_ceiling(str(rows))}, {faulty}"


def _ceiling(text: str) -> str:
    """The idiom of a ceiling, -(-n // s), as people write it."""
    return text.replace("-floor(-n/s)", "ceil(n/s)")


def _attack(name: str, kind: type[Any]) -> AttackEntry:
    doc = parsed(kind)
    return AttackEntry(name, kind, kind.needs, kind.alone, _reference(doc), doc)


def _reference(doc: Docstring) -> str:
    return short_reference(doc.references[0]) if doc.references else ""
