"""Attacks by name: ours, and those that other packages register."""

import dataclasses
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from mixtailor._checks import nearest, refuse
from mixtailor.attacks.base import Attack
from mixtailor.mixing.registry import snake

__all__ = ["GROUP", "find", "make", "names", "own_attacks"]

GROUP = "mixtailor.attacks"


def own_attacks() -> dict[str, type[Attack]]:
    """The attacks that this package exports, by name."""
    from mixtailor import attacks

    exported = (getattr(attacks, name) for name in attacks.__all__)
    kinds = [item for item in exported if isinstance(item, type) and issubclass(item, Attack)]
    return {snake(kind.__name__): kind for kind in kinds if kind is not Attack and kind is not attacks.Informed}


def names() -> dict[str, str]:
    """Every attack's name, and where it comes from: this package, or the one that registered it."""
    known = dict.fromkeys(own_attacks(), "mixtailor")
    for entry in entry_points(group=GROUP):
        known.setdefault(entry.name, entry.dist.name if entry.dist else entry.value)
    return known


def find(name: str) -> Callable[..., Attack]:
    """The attack of that name, to be called with its parameters.

    Other packages register theirs under the entry-point group ``mixtailor.attacks``; a name of ours is never taken.
    """
    plain = snake(name).replace("-", "_")
    own = own_attacks()
    if plain in own:
        return own[plain]
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            found = entry.load()
            if not callable(found):
                raise TypeError(f"The attack {name!r} registered by {entry.value} needs to be a class or a function.")
            return found  # type: ignore[no-any-return]  # checked to be callable
    raise ValueError(f"There is no attack {name!r}. {nearest(plain, list(names()))}")


def make(name: str, **parameters: Any) -> Attack:
    """An attack from its name and parameters.

    Examples
    --------
    >>> make("tailored", epsilon=0.5)
    Tailored(epsilon=0.5)
    """
    kind = find(name)
    if dataclasses.is_dataclass(kind):
        accepted = [item.name for item in dataclasses.fields(kind) if item.init]
        for parameter in parameters:
            if parameter not in accepted:
                refuse(f"{name!r} takes no parameter {parameter!r}. {nearest(parameter, accepted)}")
    return kind(**parameters)
