"""The processes that share the coordinates of a storage."""

from abc import ABC, abstractmethod
from typing import Any

from mixtailor._types import Floats

__all__ = ["Group"]


class Group(ABC):
    """The processes that share a call, each with a slice of the coordinates.

    Laws: every process makes the same calls in the same order and receives the same bits. A doubt is a sign of a
    non-finite entry that one process saw; it travels with the numbers, so that all look for the row together.
    """

    count: int  # how many processes there are
    same_bits: bool  # whether all of them compute the same bits from the same numbers

    @abstractmethod
    def sum(self, values: Floats, doubt: bool) -> tuple[Floats, bool]:
        """The sums over all processes, and whether any of them has a doubt."""

    @abstractmethod
    def lengths(self, own: Floats, powers: Floats, doubt: bool) -> tuple[Floats, bool]:
        """Lengths over all coordinates, (P, k), from those over each slice."""

    @abstractmethod
    def agreed(self, values: Any) -> Any:
        """What the first process has."""

    @abstractmethod
    def whole(self, matrix: Any) -> Any:
        """All slices of a matrix side by side."""
