"""What is wrong with an experiment, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixtailor._checks import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel, ValidationError

__all__ = ["ConfigError", "ImpossibleError", "sentences"]


class ConfigError(ValueError):
    """An experiment that cannot be run as it stands."""

    __module__ = "mixtailor.experiments"  # the name under which tracebacks and pickles refer to it


class ImpossibleError(ConfigError):
    """A rule that needs more updates than there are workers: of a sweep, it may be left out."""

    __module__ = "mixtailor.experiments"  # as above


def sentences(error: ValidationError, model: type[BaseModel], where: str) -> str:
    """All that pydantic found, each as a sentence that names the key, the value and, for a key, the nearest one.

    Several keys of one table that do not exist are one sentence.
    """
    problems = error.errors()
    extra = [found["loc"] for found in problems if found["type"] == "extra_forbidden"]
    alike = len(extra) > 1 and len({place[:-1] for place in extra}) == 1
    told = [
        _sentence(found["type"], found["loc"], found["msg"], found["input"], model, where)
        for found in problems
        if not (alike and found["type"] == "extra_forbidden")
    ]
    if alike:
        names = ", ".join(repr(str(place[-1])) for place in extra)
        told.append(f"{where}: there are no keys {names}. Known are {', '.join(sorted(model.model_fields))}.")
    return " ".join(told)


def _sentence(
    kind: str, place: Sequence[int | str], message: str, value: object, model: type[BaseModel], where: str
) -> str:
    key = ".".join(
        str(part) for part in place if not str(part).startswith(("function-", "literal[", "tagged-", "constrained-"))
    )
    if kind == "extra_forbidden":
        return f"{where}: there is no key {key!r}. {nearest(str(place[-1]), list(model.model_fields))}"
    if kind == "missing":
        return f"{where}: the key {key!r} is missing."
    plain = message.removeprefix("Value error, ").rstrip(".")
    if not place or kind == "value_error":
        return f"{where}: {f'{key}: ' if key else ''}{plain}."
    return f"{where}: {key} is {value!r}: {plain[:1].lower()}{plain[1:]}."
