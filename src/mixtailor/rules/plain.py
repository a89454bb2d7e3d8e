"""`Plain`: any callable as a rule; and what may stand where a rule is needed."""

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import refuse
from mixtailor.intake.arrays import is_torch
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Part
from mixtailor.updates import Point, Updates

__all__ = ["Plain", "as_rule", "check_inner"]


@dataclass(frozen=True)
class Plain(Rule):
    """Any callable from an (n, d) matrix to a d-vector, as a rule. It materialises the matrix of all updates.

    Parameters
    ----------
    function : callable
        Gets the finite updates as one matrix: a tensor where the updates are tensors, else a numpy array.

    Examples
    --------
    >>> Plain(lambda rows: rows.max(axis=0))(np.array([[1.0, 5.0], [3.0, 2.0]]))
    array([3., 5.])
    """

    function: Callable[[Any], Any]

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "its own, and the memory of all updates"
    lacks: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("permutation", "translation", "scale"), "nothing is known of a plain callable"
    )

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return (n - 1) // 2

    def decide(self, updates: Updates) -> Point:
        reader = updates.reader
        if not reader.storage.in_memory:
            refuse(
                f"{self!r} needs all updates as one matrix in memory, and these are files. Use a rule of this package, "
                "or load the files yourself."
            )
        reader.examine()
        matrix = updates.matrix()
        if reader.arrival.tensors and not is_torch(matrix):
            matrix = sys.modules["torch"].from_numpy(matrix)  # there already, since the updates are its tensors
        vector = _checked(self.function(matrix), updates.d, repr(self))
        if is_torch(vector) and vector.device.type == "cpu":
            vector = vector.double().numpy()
        if reader.group is not None:
            start, stop = reader.storage.span
            vector = reader.group.agreed(np.asarray(vector.cpu() if is_torch(vector) else vector))[start:stop]
        return updates.given(updates.space.vector(vector))

    def __repr__(self) -> str:
        return f"Plain({_called(self.function)})"


def _checked(result: Any, d: int, name: str) -> Any:
    if is_torch(result):
        vector, real, finite = result.detach(), not result.is_complex(), bool(result.isfinite().all())
    else:
        vector = np.asarray(result)
        real = vector.dtype.kind in "fiub"
        finite = real and bool(np.isfinite(vector).all())
    if not real:
        raise TypeError(f"{name} needs to return real numbers and returned an array of {vector.dtype}.")
    if tuple(vector.shape) != (d,):
        refuse(f"{name} needs to return a vector of {d} coordinates and returned shape {tuple(vector.shape)}.")
    if not finite:
        refuse(f"{name} returned an update that is not finite, from finite rows.")
    return vector


def _called(function: Any) -> str:
    """What a callable is called: the same in every process, so that a run knows its checkpoint again."""
    if isinstance(function, functools.partial):
        given = [*map(repr, function.args), *(f"{key}={value!r}" for key, value in function.keywords.items())]
        return ", ".join([_called(function.func), *given])
    text = str(getattr(function, "__qualname__", repr(function)))
    return type(function).__qualname__ if " at 0x" in text else text


def as_rule(rule: Any) -> Rule:
    """A rule as it is, any other callable as a `Plain` rule."""
    if isinstance(rule, Rule):
        return rule
    needed = "A rule or a callable from an (n, d) matrix to a d-vector is needed, and"
    if isinstance(rule, str):
        raise TypeError(f"{needed} {rule!r} is text. Write mixtailor.make_rule({rule!r}, f=2), with your f.")
    if isinstance(rule, type) and issubclass(rule, Part):
        example = f"{rule.__name__}({'f=2' if 'f' in getattr(rule, '__dataclass_fields__', ()) else ''})"
        raise TypeError(f"{needed} {rule.__name__} is a class. Make a rule of it: {example}.")
    if hasattr(rule, "prepare") and isinstance(rule, Part):
        raise TypeError(f"{needed} {rule!r} is a pre-aggregation. Write {rule!r} >> mixtailor.Comed().")
    if isinstance(rule, (type, Part)) or not callable(rule):
        raise TypeError(f"{needed} {rule!r} is neither.")
    return Plain(rule)


def check_inner(whole: str, rule: Rule) -> None:
    """Refuse a rule that keeps what it learns as a part of another."""
    if rule.outermost:
        name = type(rule).__name__
        refuse(f"{name} keeps what it learns and must be outermost. Put {whole} inside: {name}(...) of the whole rule.")
