"""Rules and pre-aggregations by name, ours and those that other packages register, and rules made from text."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from mixtailor import preaggregation, rules
from mixtailor._checks import nearest, refuse
from mixtailor._references import is_reference, loaded
from mixtailor._registry import exported, found, named, snake
from mixtailor.mixing.entropy import Entropy
from mixtailor.mixing.grammar import EXAMPLE, Call, Written, parse, split
from mixtailor.mixing.mixtailor import MixTailor
from mixtailor.mixing.pools import POOLS
from mixtailor.preaggregation import Chain, PreAggregation
from mixtailor.rules import Plain, Rule, as_rule

__all__ = ["GROUP", "find", "listed", "make_rule", "names", "own_preaggregations", "own_rules", "snake"]

GROUP = "mixtailor.rules"

# Rules of a package above this one, by the name that users write: it is loaded when rules are looked up by name.
_ABOVE = {"guarded": "Guarded", "memory": "Memory", "recommended": "recommended"}


def own_rules() -> dict[str, type[Rule]]:
    """The rules that this package exports, by name."""
    return exported(rules, Rule, apart_from=[rules.Plain])


def own_preaggregations() -> dict[str, type[PreAggregation]]:
    """The pre-aggregations that this package exports, by name."""
    return exported(preaggregation, PreAggregation, apart_from=[preaggregation.Both])


def names() -> dict[str, str]:
    """Every rule's name, and where it comes from: this package, or the one that registered it."""
    return named(_own(_Scope()), GROUP)


def find(name: str) -> Callable[..., Rule]:
    """The rule of that name, to be called with its parameters.

    Other packages register theirs under the entry-point group ``mixtailor.rules``; a name of ours is never taken. A
    rule of yours is ``mine.py:Nearest`` or ``package.module:Nearest``: a class, a rule, a function that makes one, or
    any function on an (n, d) matrix.
    """
    return _maker(found("rule", name, _own(_Scope()), GROUP), name)


def listed(what: str, text: str, known: Mapping[str, Any]) -> list[Any]:
    """The items that a text names, separated by commas: known ones by their name, others with a reference as written.

    Parameters
    ----------
    what : str
        What the items are, for the message that refuses an unknown name: "rule" or "attack".
    text : str
        As on the command line.
    known : mapping
        The items that have names there.

    Examples
    --------
    >>> listed("rule", "Krum, nnm >> mine.py:Nearest(p=3)", {"Krum": {"name": "krum"}})
    [{'name': 'krum'}, 'nnm >> mine.py:Nearest(p=3)']
    """
    found = []
    for name in split(text):
        if name not in known and not any(is_reference(part) for part in re.split(r"[\s(),=\[\]]+|>>", name)):
            refuse(f"There is no {what} {name!r} here. {nearest(name, list(known))} One of yours: 'mine.py:Name'.")
        found.append(known.get(name, name))
    return found


def make_rule(
    rule: "str | Mapping[str, Any] | Rule | Callable[[Any], Any]",
    *,
    f: int | None = None,
    n: int | None = None,
    entropy: Entropy | None = None,
    **parameters: Any,
) -> Rule:
    """A rule from text or from a table: ``make_rule("nnm >> krum(p=3)", f=2)``.

    Pre-aggregations stand in front of ``>>``. Parameters stand in parentheses, and may be rules themselves. Pools are
    ``default_pool``, ``paper_pool``, and ``mixtailor(krum, comed)`` with rules of your choice; ``mixtailor`` alone is
    ``default_pool``.

    Parameters
    ----------
    rule : str, mapping, Rule or callable
        The text; or a table with the text as its ``name`` and parameters beside it, as TOML files have it:
        ``{"name": "bulyan", "then": "comed"}``. A rule or a callable is returned as a rule.
    f : int, optional
        How many updates may be Byzantine: for all parts that have an f, unless the text gives one.
    n : int, optional
        How many updates will arrive. Pools then leave out what n forbids from the start.
    entropy : Entropy, optional
        Where pools draw from; the operating system by default.
    **parameters
        Parameters for every part of the chain that has them. One that no part has is refused.

    Examples
    --------
    >>> make_rule("nnm >> krum", f=2)
    NNM(f=2) >> Krum(f=2)
    >>> make_rule("nnm >> krum(p=3)", f=2)
    NNM(f=2) >> Krum(f=2, p=3)
    >>> make_rule("bulyan(f=2, selection=comed, then=krum)")
    Bulyan(f=2, selection=Comed(), then=Krum(f=2))
    >>> make_rule("nnm >> mixtailor(krum, geometric_median(p=4))", f=2)
    NNM(f=2) >> MixTailor([Krum(f=2), GeometricMedian(p=4)])
    >>> make_rule({"name": "resampling >> krum", "repeats": 2, "f_after": "declared"}, f=2)
    Resampling(repeats=2) >> Krum(f=2)
    >>> make_rule("krum(q=3)", f=2)
    Traceback (most recent call last):
    ValueError: 'krum' takes no parameter 'q'. Known are f, p, power.
    """
    return _Scope(f, n, entropy).made(rule, parameters)


class _Scope(NamedTuple):
    """What all parts of a rule are made with, unless they say otherwise."""

    f: int | None = None
    n: int | None = None
    entropy: Entropy | None = None

    def made(self, rule: Any, parameters: Mapping[str, Any] = MappingProxyType({})) -> Rule:
        """A rule from any of the forms that `make_rule` takes."""
        if isinstance(rule, Written):
            return self._chained(rule, {}, rule.calls[-1].name)
        if isinstance(rule, str):
            return self._chained(parse(rule), dict(parameters), rule)
        if isinstance(rule, Mapping):
            if not isinstance(rule.get("name"), str):
                refuse(f"A table needs a name, as in {{name = 'krum'}}, and got {dict(rule)!r}.")
            # A label is for pictures, and says nothing about the rule.
            beside = {key: value for key, value in rule.items() if key not in ("name", "label")}
            return self._chained(parse(rule["name"]), {**beside, **parameters}, rule["name"])
        if parameters:
            refuse(f"{rule!r} is a rule already and takes no parameter {next(iter(parameters))!r}.")
        return as_rule(rule)

    def _chained(self, written: Written, parameters: dict[str, Any], text: str) -> Rule:
        *fronts, last = written.calls
        f_after: Any = parameters.pop("f_after", "mapped") if fronts else "mapped"
        makers = [*(_Maker.of_front(call) for call in fronts), _Maker.of_rule(last, parameters, self)]
        # The parts of a chain have one f; the one that is written closest counts.
        given = [*(maker.written().get("f") for maker in makers), parameters.pop("f", None)]
        scope = self._replace(f=next((f for f in given if f is not None), self.f))
        for key in parameters:
            if not any(maker.takes(key) for maker in makers):
                known = sorted(set().union(*(maker.parameters for maker in makers)))
                refuse(f"{text!r} takes no parameter {key!r}. {nearest(key, known)}")
        rule: Rule = makers[-1].made(parameters, scope)
        for maker in reversed(makers[:-1]):
            rule = Chain(maker.made(parameters, scope), rule, f_after=f_after)
        return rule


class _Maker(NamedTuple):
    """One call of a chain and what it calls."""

    call: Call
    make: Callable[..., Any]
    parameters: Mapping[str, inspect.Parameter]

    @classmethod
    def of_front(cls, call: Call) -> "_Maker":
        known, name = own_preaggregations(), _plain(call.name)
        if is_reference(call.name):
            own = loaded(call.name)
            if isinstance(own, PreAggregation):
                return cls(call, lambda: own, {})
            if isinstance(own, type) and issubclass(own, PreAggregation):
                return cls(call, own, _signature(own))
            refuse(f"{call.name!r} stands in front of >> and is no pre-aggregation: derive it from PreAggregation.")
        if name in known:
            return cls(call, known[name], _signature(known[name]))
        if name in names():
            refuse(f"{call.name!r} is a rule, and rules come last. Write pre-aggregations in front, as in {EXAMPLE}.")
        return refuse(f"There is no pre-aggregation {call.name!r}. {nearest(name, list(known))}")

    @classmethod
    def of_rule(cls, call: Call, parameters: Mapping[str, Any], scope: _Scope) -> "_Maker":
        name, own = _plain(call.name), _own(scope)
        if name in own_preaggregations():
            refuse(f"{call.name!r} is a pre-aggregation and needs a rule behind it. Write {call.name + ' >> krum'!r}.")
        if name == "mixtailor" and (call.arguments or "rules" in call.keywords or "rules" in parameters):
            name = "pool"
        make = own[name] if name in own else _maker(found("rule", call.name, own, GROUP), call.name)
        return cls(call, make, _signature(make))

    def takes(self, parameter: str) -> bool:
        open_ended = any(item.kind is item.VAR_KEYWORD for item in self.parameters.values())
        return open_ended or parameter in self.parameters

    def made(self, shared: Mapping[str, Any], scope: _Scope) -> Any:
        """The part, from what its parentheses say, then what the whole chain was given, then the f of the scope."""
        given = self.written()
        given = {**{key: value for key, value in shared.items() if self.takes(key)}, **given}
        if "f" in self.parameters and scope.f is not None:
            given.setdefault("f", scope.f)
        inner = scope._replace(f=given.get("f", scope.f))
        for key, item in self.parameters.items():
            optional = item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD) or item.default is not item.empty
            if not optional and key not in given:
                example = f"{self.call.name}({key}={'2' if key == 'f' else '...'})"
                more = f", or give f=2 beside it: make_rule({self.call.name!r}, f=2)" if key == "f" else ""
                refuse(f"{self.call.name!r} needs {key}. Write {example!r}{more}.")
        return self.make(**{key: self._value(key, value, inner) for key, value in given.items()})

    def written(self) -> dict[str, Any]:
        """What stands in the parentheses, by parameter."""
        call = self.call
        for key in call.keywords:
            if not self.takes(key):
                refuse(f"{call.name!r} takes no parameter {key!r}. {nearest(key, sorted(self.parameters))}")
        if "rules" in self.parameters and call.arguments:
            lists = [item if isinstance(item, list) else [item] for item in call.arguments]
            return {"rules": [rule for members in lists for rule in members], **call.keywords}
        places = [key for key, item in self.parameters.items() if item.kind is item.POSITIONAL_OR_KEYWORD]
        if len(call.arguments) > len(places):
            refuse(
                f"{call.name!r} takes {len(places)} values without a name and got {len(call.arguments)}. "
                f"Known are {', '.join(sorted(self.parameters)) or 'none'}."
            )
        given = dict(zip(places, call.arguments, strict=False))
        for key in given:
            if key in call.keywords:
                refuse(f"{call.name!r} is given {key} twice.")
        return {**given, **call.keywords}

    def _value(self, key: str, value: Any, scope: _Scope) -> Any:
        item = self.parameters.get(key)
        is_rule = item is not None and re.search(r"\bRule\b", str(item.annotation)) is not None
        return _settled(value, is_rule, scope)


def _settled(value: Any, is_rule: bool, scope: _Scope) -> Any:
    """A value for a parameter; names become rules where the parameter is a rule, or a list of rules."""
    if isinstance(value, (list, tuple)):
        return tuple(_settled(item, is_rule, scope) for item in value)  # a list would make the rule unhashable
    if isinstance(value, Written) and (is_rule or value.word is None):
        return scope.made(value)
    if isinstance(value, Written):
        return value.word
    return scope.made(value) if is_rule and isinstance(value, (str, Mapping)) else value


def _own(scope: _Scope) -> dict[str, Callable[..., Rule]]:
    """Our rules and pools by name."""

    def pool(rules: Iterable[Rule], probabilities: Iterable[float] | None = None) -> Rule:
        return MixTailor(rules, probabilities, scope.entropy)

    pools = {name: _drawing_from(members, scope) for name, members in POOLS.items()}
    above = import_module("mixtailor.memory")
    remembering: dict[str, Callable[..., Rule]] = {name: getattr(above, kept) for name, kept in _ABOVE.items()}
    return {**own_rules(), **remembering, **pools, "pool": pool}


def _drawing_from(members: Callable[..., list[Rule]], scope: _Scope) -> Callable[..., Rule]:
    """A MixTailor over a pool, without what the scope's n forbids."""

    @functools.wraps(members)  # with the pool's parameters for a signature
    def mixture(*arguments: Any, **options: Any) -> Rule:
        pool = MixTailor(members(*arguments, **options), entropy=scope.entropy)
        return pool if scope.n is None else pool.fitting(scope.n)

    return mixture


def _maker(given: Any, name: str) -> Callable[..., Rule]:
    """What makes a rule of its parameters, from an object of any kind that a name may stand for."""
    if isinstance(given, Rule):
        return lambda: given
    if isinstance(given, PreAggregation) or (isinstance(given, type) and issubclass(given, PreAggregation)):
        refuse(f"{name!r} is a pre-aggregation and needs a rule behind it. Write '{name} >> krum'.")
    if not callable(given):
        raise TypeError(f"{name!r} needs to be a rule, a class of rules or a function, and is {given!r}.")
    if isinstance(given, type) and issubclass(given, Rule):
        return given
    if isinstance(given, type) and not any("__call__" in vars(base) for base in given.__mro__):
        raise TypeError(f"{name!r} needs to be a class of rules, or of objects that can be called on an (n, d) matrix.")
    parameters = _signature(given)
    if isinstance(given, type) or _makes_rules(given, parameters):

        @functools.wraps(given)
        def made(*arguments: Any, **options: Any) -> Rule:
            return as_rule(given(*arguments, **options))

        return made
    if not parameters:
        refuse(f"{name!r} has no parameter for the (n, d) matrix. A function that makes a rule is annotated: -> Rule.")

    def plain(**options: Any) -> Rule:
        return Plain(functools.partial(given, **options) if options else given)

    plain.__signature__ = inspect.Signature(list(parameters.values())[1:])  # type: ignore[attr-defined]  # for inspect
    return plain


def _makes_rules(function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether a function makes a rule, by its annotation or since its first parameter is f; else it is one itself."""
    returned = inspect.signature(function).return_annotation
    if isinstance(returned, type) and issubclass(returned, Rule):
        return True
    if isinstance(returned, str) and returned.rpartition(".")[2] == "Rule":
        return True
    return next(iter(parameters), None) == "f"


def _signature(make: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(make).parameters


def _plain(name: str) -> str:
    return snake(name).replace("-", "_")
