"""What rules and pre-aggregations have in common: parameters, nested parts, and what they will query."""

import dataclasses
import functools
import re
from abc import ABC
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

from mixtailor._checks import check_f, check_norm

__all__ = ["Asks", "Part", "walk"]


@dataclasses.dataclass(frozen=True)
class Asks:
    """What a part will query of the updates that it is given.

    A pool or an attacker that runs many rules on the same updates reads this, and queries once for all of them.

    Attributes
    ----------
    norms : frozenset of float
        The norms in which it will query the distances between all updates.
    reference : {"previous", "trusted"}, optional
        Whether it uses the ``reference=`` of a call. "trusted": it needs a vector that the caller trusts. "previous":
        it starts from the result of the round before, where it is given.

    Examples
    --------
    >>> Asks.distances(3) | Asks(reference="previous") | Asks(reference="trusted")
    Asks(norms=frozenset({3.0}), reference='trusted')
    """

    norms: frozenset[float] = frozenset()
    reference: Literal["previous", "trusted"] | None = None

    @classmethod
    def distances(cls, *norms: float) -> Self:
        """Distances between all updates in these norms, and nothing else."""
        return cls(frozenset(float(p) for p in norms))

    def __or__(self, other: "Asks") -> "Asks":
        """What both ask."""
        references = (self.reference, other.reference)
        reference = "trusted" if "trusted" in references else self.reference or other.reference
        return Asks(self.norms | other.norms, reference)


def _concise(self: Any) -> str:
    """The parameters that differ from their defaults: `Krum(f=2, p=3)`."""
    shown = [
        f"{item.name}={_short(getattr(self, item.name))}"
        for item in _fields(type(self))
        if item.repr and (item.default is dataclasses.MISSING or getattr(self, item.name) != item.default)
    ]
    return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)


def _fields(kind: Any) -> "tuple[dataclasses.Field[Any], ...]":
    """The fields; none of a class that was written without the decorator, and then has no parameters."""
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


@functools.cache
def _parameters(kind: type) -> tuple[str, ...]:
    """The names of a dataclass's fields that its constructor takes."""
    return tuple(item.name for item in _fields(kind) if item.init)


@functools.cache
def _rule_fields(kind: type) -> tuple[str, ...]:
    """The names of the fields that are rules, by their annotation."""
    return tuple(item.name for item in _fields(kind) if re.search(r"\bRule\b", str(item.type)))


class Part(ABC):  # noqa: B024  # its abstract methods are those of rules and of pre-aggregations
    """A rule or a pre-aggregation: a frozen dataclass, which may contain other parts.

    A class that keeps parts elsewhere than in its fields, or in tuples and lists there, overrides `parts` and
    `with_parts`. Everything that has to reach all nested parts is built on these two.
    """

    def __init_subclass__(cls) -> None:
        if "__repr__" not in cls.__dict__:  # set before the dataclass decorator looks for one
            cls.__repr__ = _concise  # type: ignore[method-assign]  # on purpose, for every subclass

    def parts(self) -> "tuple[Part, ...]":
        """The rules and pre-aggregations directly inside this one, in the order of its fields.

        Examples
        --------
        >>> import mixtailor as mt
        >>> (mt.NNM(f=1) >> mt.Bulyan(f=1, then=mt.Comed())).parts()
        (NNM(f=1), Bulyan(f=1, then=Comed()))
        """
        return self._fields_parts

    @functools.cached_property
    def _fields_parts(self) -> "tuple[Part, ...]":
        values = [getattr(self, name) for name in _parameters(type(self))]
        return tuple(part for value in values for part in _items(value) if isinstance(part, Part))

    def with_parts(self, parts: "Sequence[Part]", **changes: Any) -> Self:
        """The same with other parts, in the order of `parts()`, and with other values for the fields in `changes`."""
        given = iter(parts)
        for name in _parameters(type(self)):
            value = getattr(self, name)
            if isinstance(value, Part):
                changes[name] = next(given)
            elif any(isinstance(item, Part) for item in _items(value)):
                changes[name] = type(value)(next(given) if isinstance(item, Part) else item for item in value)
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]  # every part is a dataclass

    def with_f(self, f: int) -> Self:
        """The same with another f, in all nested parts."""
        differs = getattr(self, "f", None) not in (None, f)
        own = {"f": f} if differs and "f" in _parameters(type(self)) else {}
        parts = self.parts()
        if not parts:
            return dataclasses.replace(self, **own) if own else self  # type: ignore[type-var]  # as above
        changed = [part.with_f(f) for part in parts]
        same = all(new is old for new, old in zip(changed, parts, strict=True))
        return self if same and not own else self.with_parts(changed, **own)

    def declared_f(self) -> int | None:
        """The f that was declared, here or in a part; None if none declares one."""
        own = getattr(self, "f", None)
        if own is not None:
            return int(own)
        for part in self.parts():
            inner = part.declared_f()
            if inner is not None:
                return inner
        return None

    def asks(self) -> Asks:
        """What it will query of the updates that it is given: by default, what its parts query."""
        return functools.reduce(Asks.__or__, (part.asks() for part in self.parts()), Asks())

    def takes_weights(self) -> bool:
        """Whether it has a form in which each update counts by a weight; what is nested inside it is asked, too."""
        return False

    @functools.cached_property
    def _held(self) -> float | None:
        """Seconds after which results are released: the most that this part or a nested one asks for."""
        asked = [getattr(part, "release_after", None) for part in walk(self)]
        return max((seconds for seconds in asked if seconds is not None), default=None)

    def __post_init__(self) -> None:
        """Refuse wrong arguments at construction: f and p are checked in the same way everywhere."""
        name = type(self).__name__
        f, p = getattr(self, "f", None), getattr(self, "p", None)
        if f is not None:
            check_f(name, f)
        if p is not None:
            check_norm(name, p)
        for field in _rule_fields(type(self)):
            if isinstance(given := getattr(self, field), str):
                raise TypeError(
                    f"{name} needs {field}= as a rule and got the text {given!r}. Write "
                    f"{field}=mixtailor.make_rule({given!r}, f=2), with your f."
                )


def walk(part: Part) -> Iterator[Part]:
    """A part and everything nested inside it, outermost first.

    Examples
    --------
    >>> import mixtailor as mt
    >>> list(walk(mt.NNM(f=1) >> mt.Krum(f=1)))
    [NNM(f=1) >> Krum(f=1), NNM(f=1), Krum(f=1)]
    """
    yield part
    for inner in part.parts():
        yield from walk(inner)


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, (tuple, list)) else (value,)
