"""Rules and pre-aggregations by name: ours, and those that other packages register."""

import dataclasses
from collections.abc import Callable
from typing import Any

from mixtailor import preaggregation, rules
from mixtailor._checks import nearest, refuse
from mixtailor._registry import exported, found, named, snake
from mixtailor.mixing.mixtailor import MixTailor
from mixtailor.mixing.pools import default_pool, paper_pool
from mixtailor.preaggregation import PreAggregation
from mixtailor.rules import Rule

__all__ = ["GROUP", "find", "make", "names", "own_preaggregations", "own_rules", "snake"]

GROUP = "mixtailor.rules"


def own_rules() -> dict[str, type[Rule]]:
    """The rules that this package exports, by name."""
    return exported(rules, Rule, apart_from=[rules.Plain])


def own_preaggregations() -> dict[str, type[PreAggregation]]:
    """The pre-aggregations that this package exports, by name."""
    return exported(preaggregation, PreAggregation, apart_from=[preaggregation.Both])


def names() -> dict[str, str]:
    """Every rule's name, and where it comes from: this package, or the one that registered it."""
    return named(_own(), GROUP)


def find(name: str) -> Callable[..., Rule]:
    """The rule of that name, to be called with its parameters.

    Other packages register theirs under the entry-point group ``mixtailor.rules``; a name of ours is never taken.
    """
    return found("rule", name, _own(), GROUP)


def _own() -> dict[str, Callable[..., Rule]]:
    return {
        **own_rules(),
        "mixtailor": _of_paper_pool,
        "paper_pool": _of_paper_pool,
        "default_pool": lambda f=0, **options: MixTailor(default_pool(f, **options)),
    }


def _of_paper_pool(f: int = 0, **options: Any) -> Rule:
    return MixTailor(paper_pool(f, **options))


def make(text: str, **parameters: Any) -> Rule:
    """A rule from its name, pre-aggregations in front of it: ``make("nnm >> krum", f=2, p=3)``.

    Each part takes the parameters that it has; one that no part has is refused.

    Examples
    --------
    >>> make("nnm >> krum", f=2)
    NNM(f=2) >> Krum(f=2)
    >>> make("trimmed_mean", f=1)
    TrimmedMean(f=1)
    """
    *fronts, last = [part.strip() for part in text.split(">>")]
    used: set[str] = set()
    taken: set[str] = {"f"}
    known = own_preaggregations()
    for front in fronts:
        if snake(front) not in known:
            refuse(f"There is no pre-aggregation {front!r}. {nearest(snake(front), list(known))}")
    rule: Rule = _built(find(last), parameters, used, taken)
    for front in reversed(fronts):
        rule = _built(known[snake(front)], parameters, used, taken) >> rule
    unknown = set(parameters) - used - {"f"}
    if unknown:
        refuse(f"{text!r} takes no parameter {sorted(unknown)[0]!r}. {nearest(sorted(unknown)[0], sorted(taken))}")
    return rule


def _built(kind: Callable[..., Any], parameters: dict[str, Any], used: set[str], taken: set[str]) -> Any:
    if dataclasses.is_dataclass(kind):
        accepted = {item.name for item in dataclasses.fields(kind) if item.init}
        given = {name: value for name, value in parameters.items() if name in accepted}
        taken.update(accepted)
    else:
        given = dict(parameters)
    used.update(given)
    return kind(**given)
