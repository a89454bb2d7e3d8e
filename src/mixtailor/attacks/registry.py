"""Attacks by name: ours, and those that other packages register."""

import dataclasses
from collections.abc import Callable
from typing import Any

from mixtailor._checks import nearest, refuse
from mixtailor._registry import exported, found, named
from mixtailor.attacks.base import Attack

__all__ = ["GROUP", "find", "make", "names", "own_attacks"]

GROUP = "mixtailor.attacks"


def own_attacks() -> dict[str, type[Attack]]:
    """The attacks that this package exports, by name."""
    from mixtailor import attacks

    return exported(attacks, Attack, apart_from=[attacks.Informed])


def names() -> dict[str, str]:
    """Every attack's name, and where it comes from: this package, or the one that registered it."""
    return named(own_attacks(), GROUP)


def find(name: str) -> Callable[..., Attack]:
    """The attack of that name, to be called with its parameters.

    Other packages register theirs under the entry-point group ``mixtailor.attacks``; a name of ours is never taken. An
    attack of yours is ``mine.py:Shift`` or ``package.module:Shift``.
    """
    given = found("attack", name, dict(own_attacks()), GROUP)
    if isinstance(given, Attack):
        return lambda: given
    if not callable(given):
        raise TypeError(f"{name!r} needs to be an attack or a class of attacks, and is {given!r}.")
    return given  # type: ignore[no-any-return]  # checked to be callable


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
    attack = kind(**parameters)
    if not isinstance(attack, Attack):
        raise TypeError(
            f"{name!r} needs to make an attack, derived from mixtailor.attacks.Attack, and made {attack!r}."
        )
    return attack
