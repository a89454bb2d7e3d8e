"""What rules and pre-aggregations have in common: parameters, their checks, and how they are written."""

import dataclasses
import functools
from abc import ABC
from typing import Any, Self

from mixtailor._checks import check_f, check_norm

__all__ = ["Part"]


def _concise(self: Any) -> str:
    """The parameters that differ from their defaults: `Krum(f=2, p=3)`."""
    shown = [
        f"{item.name}={_short(getattr(self, item.name))}"
        for item in dataclasses.fields(self)
        if item.default is dataclasses.MISSING or getattr(self, item.name) != item.default
    ]
    return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)


@functools.cache
def _parameters(kind: type) -> tuple[str, ...]:
    """The names of a dataclass's fields: asked for several times a call."""
    return tuple(item.name for item in dataclasses.fields(kind))


class Part(ABC):  # noqa: B024  # its abstract methods are those of rules and of pre-aggregations
    """Something with an f in it or in its parts: a rule or a pre-aggregation, each a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        if "__repr__" not in cls.__dict__:  # set before the dataclass decorator looks for one
            cls.__repr__ = _concise  # type: ignore[method-assign]  # on purpose, for every subclass

    def with_f(self, f: int) -> Self:
        """The same with another f, in all nested parts."""
        changes: dict[str, Any] = {}
        for name in _parameters(type(self)):
            value = getattr(self, name)
            if name == "f" and value is not None and value != f:
                changes["f"] = f
            elif isinstance(value, Part) and (changed := value.with_f(f)) is not value:
                changes[name] = changed
        return dataclasses.replace(self, **changes) if changes else self  # type: ignore[type-var]  # each is a dataclass

    def declared_f(self) -> int | None:
        """The f that was declared, here or in a part; None where there is none to declare."""
        for name in _parameters(type(self)):
            value = getattr(self, name)
            inner = value.declared_f() if isinstance(value, Part) else value if name == "f" else None
            if inner is not None:
                return int(inner)
        return None

    @functools.cached_property
    def _held(self) -> float | None:
        """The seconds that answers are released after: the most that it or a part asks for, None where none does."""
        values = [getattr(self, item.name) for item in dataclasses.fields(self)]  # type: ignore[arg-type]  # as above
        parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
        asked = [getattr(self, "release_after", None), *(part._held for part in parts if isinstance(part, Part))]
        return max((seconds for seconds in asked if seconds is not None), default=None)

    def _check_parameters(self) -> None:
        """Refuse wrong arguments at construction: f and p are checked alike everywhere."""
        name = type(self).__name__
        f, p = getattr(self, "f", None), getattr(self, "p", None)
        if f is not None:
            check_f(name, f)
        if p is not None:
            check_norm(name, p)

    def __post_init__(self) -> None:
        self._check_parameters()
