"""Classes by name: those that a package of ours exports, and those that other packages register."""

import re
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from mixtailor._checks import nearest, refuse
from mixtailor._references import is_reference, loaded

__all__ = ["exported", "found", "named", "snake"]


def snake(name: str) -> str:
    """A class's name as users write it: "TrimmedMean" is "trimmed_mean", "DnC" is "dnc"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", name).lower()


def exported(package: ModuleType, kind: type[Any], *, apart_from: Iterable[type[Any]]) -> dict[str, type[Any]]:
    """The classes of a kind that a package exports, by the name that users write."""
    left_out = {kind, *apart_from}
    items = (getattr(package, name) for name in package.__all__)
    classes = [item for item in items if isinstance(item, type) and issubclass(item, kind)]
    return {snake(item.__name__): item for item in classes if item not in left_out}


def named(own: Iterable[str], group: str) -> dict[str, str]:
    """Every name, and where it comes from: this package, or the one that registered it under the entry-point group."""
    known = dict.fromkeys(own, "mixtailor")
    for entry in entry_points(group=group):
        known.setdefault(entry.name, entry.dist.name if entry.dist else entry.value)
    return known


def found(what: str, name: str, own: dict[str, Callable[..., Any]], group: str) -> Any:
    """What goes by that name: of ours, a class or a maker; of others, the object that they wrote or registered.

    A name of ours is never taken by another package. A reference such as ``mine.py:Nearest`` is loaded.
    """
    if is_reference(name):
        return loaded(name)
    plain = snake(name).replace("-", "_")
    if plain in own:
        return own[plain]
    for entry in entry_points(group=group):
        if entry.name == name:
            registered = entry.load()
            if not callable(registered):
                raise TypeError(f"The {what} {name!r} registered by {entry.value} needs to be a class or a function.")
            return registered
    return refuse(f"There is no {what} {name!r}. {nearest(plain, list(named(own, group)))}")
