"""Points: the result of a rule, described and not computed yet."""

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, final

from mixtailor._types import Floats
from mixtailor.kernels.columnwise import Statistic

__all__ = ["Columns", "Combination", "Formula", "Given", "Point"]


@dataclass(frozen=True, eq=False)
class Point(ABC):
    """A vector of d coordinates, described by what it is made of. The kinds are `Combination`, `Columns`, `Given` and
    `Formula`.

    Attributes
    ----------
    updates : Updates
        The updates that the point is made of. (Typed loosely: this module is below `Updates`.)
    facts : Mapping
        What the rule found on its way: scores, selected rows, iterations, residual. They end up in `Aggregation`.
    """

    updates: Any
    facts: Mapping[str, object] = field(default_factory=dict, kw_only=True)

    def with_facts(self, **facts: object) -> Self:
        """The same point with other facts."""
        return replace(self, facts=facts)


@final
@dataclass(frozen=True, eq=False)
class Combination(Point):
    """The sum of the rows times `weights`, which may have any sum. Rows of weight zero are not read."""

    weights: Floats


@final
@dataclass(frozen=True, eq=False)
class Columns(Point):
    """A columnwise statistic of the rows."""

    statistic: Statistic


@final
@dataclass(frozen=True, eq=False)
class Given(Point):
    """A vector from outside, flat, in the array type of the storage."""

    vector: Any


@final
@dataclass(frozen=True, eq=False)
class Formula(Point):
    """A function of other points, coordinate by coordinate.

    ``function(start, stop, *values)`` gets the coordinates from `start` to `stop` and the value of each part there, in
    float64, as numpy arrays or tensors. It may use operators only, and must give the same numbers however the
    coordinates are divided into ranges.
    """

    parts: tuple[Point, ...]
    function: Callable[..., Any]
