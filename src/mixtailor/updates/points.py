"""Points: what a rule decided, described and not yet computed."""

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mixtailor.updates.statistics import Statistic

if TYPE_CHECKING:
    from mixtailor.updates.base import Updates

__all__ = ["Columns", "Combination", "Formula", "Given", "Point", "only_row"]


@dataclass(frozen=True, eq=False)
class Point(ABC):
    """A vector of d coordinates, described by what it is made of. Final: `Combination`, `Columns`, `Given`,
    `Formula`.

    Attributes
    ----------
    updates : Updates
        The rows that the point is made of.
    facts : Mapping
        What the rule found on its way: scores, selected rows, iterations, residual. They end up in `Aggregation`.
    """

    updates: "Updates"
    facts: Mapping[str, object] = field(default_factory=dict, kw_only=True)

    def with_facts(self, **facts: object) -> Self:
        """The same point with other facts."""
        return replace(self, facts=facts)


@dataclass(frozen=True, eq=False)
class Combination(Point):
    """The sum of the rows times `weights`, which may have any sum. Rows of weight zero are not touched."""

    weights: "np.ndarray[Any, np.dtype[np.float64]]"


@dataclass(frozen=True, eq=False)
class Columns(Point):
    """A columnwise statistic of the rows."""

    statistic: Statistic


@dataclass(frozen=True, eq=False)
class Given(Point):
    """A vector from outside, flat, in the array type of the updates' home."""

    vector: Any


@dataclass(frozen=True, eq=False)
class Formula(Point):
    """A function of other points, coordinate by coordinate.

    ``function(start, stop, *values)`` gets the coordinates from `start` to `stop` and what each part is there, in
    float64, as numpy arrays or tensors: it is to use operators alone, and to give the same numbers however the
    coordinates are divided into runs.
    """

    parts: tuple[Point, ...]
    function: Callable[..., Any]


def only_row(weights: "np.ndarray[Any, np.dtype[np.float64]]") -> int | None:
    """The row that a combination with these weights is, as it is; None where it is none.

    Examples
    --------
    >>> only_row(np.array([0.0, 1.0, 0.0])), only_row(np.array([0.0, 0.5, 0.0])), only_row(np.array([0.5, 0.5]))
    (1, None, None)
    """
    used = np.nonzero(weights)[0]
    return int(used[0]) if len(used) == 1 and weights[used[0]] == 1.0 else None
