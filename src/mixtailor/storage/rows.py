"""`Rows`: where updates are stored."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

from mixtailor._types import Array, Integers
from mixtailor.kernels.space import Space

__all__ = ["Broken", "Rows", "run_width", "split"]


@final
class Broken(Exception):  # a signal to the pass loop, not an error that a user sees
    """Rows, by their index in this storage, that can no longer be read."""

    def __init__(self, rows: Sequence[int], reason: str) -> None:
        super().__init__(reason)
        self.rows, self.reason = tuple(rows), reason


def split(start: int, stop: int, width: int) -> list[tuple[int, int]]:
    """Consecutive ranges of about equal width, none much longer than `width`; one empty range where there is nothing.

    Examples
    --------
    >>> split(0, 10, 4)
    [(0, 5), (5, 10)]
    """
    count = max(1, round((stop - start) / width))
    step = max(1, -(-(stop - start) // count))
    return [(low, min(low + step, stop)) for low in range(start, stop, step)] or [(start, start)]


def run_width(n: int, entries: int) -> int:
    """How many coordinates make a range of n rows."""
    return max(1024, entries // max(n, 1) // 64 * 64)


class Rows(ABC):
    """n updates of d coordinates, wherever they are stored. Abstract: one final class for each kind of storage.

    A storage gives blocks and takes a result. It computes nothing and knows no rule. Laws: `block` reads in place where
    it can and may be called from several threads; `only` keeps the order of the rows, reads nothing, and gives results
    that are bit for bit those of a storage that never had the other rows; nothing is ever written to a row.

    Attributes
    ----------
    n, d : int
        Rows, and coordinates of one row.
    space : Space
        The functions that compute on its blocks.
    single : bool
        Whether blocks hold float32 numbers.
    in_place : bool
        Whether a block is nothing but addresses.
    in_memory : bool
        Whether reading is cheap, and all rows may be copied to one matrix.
    ordered : bool
        Whether ranges must be read in order, by one thread.
    """

    n: int
    d: int
    space: Space[Any]
    single: bool
    in_place: bool = False
    in_memory: bool = True
    ordered: bool = False

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest number that every coordinate of a result can hold."""

    @property
    def span(self) -> tuple[int, int]:
        """The coordinates that are stored here: all of them, except in a shard."""
        return 0, self.d

    def runs(self, rows: int | None = None) -> list[tuple[int, int]]:
        """Consecutive ranges of coordinates that cover the span. `rows` is given by a view that copies that many."""
        wide = rows is None and (self.in_place or not self.in_memory)
        entries = self.space.run_entries if wide else self.space.view_entries
        return split(*self.span, run_width(max(rows or 0, self.n), entries))

    @abstractmethod
    def block(self, start: int, stop: int) -> Any:
        """All rows on a range, in the form that the space takes."""

    @abstractmethod
    def coordinates(self, which: Integers) -> Array:
        """Single coordinates of all rows, in ascending order: a small numpy matrix."""

    @abstractmethod
    def only(self, rows: Sequence[int]) -> "Rows":
        """The same storage with fewer rows."""

    @abstractmethod
    def new(self) -> Any:
        """An empty result, flat, in the type of one update."""

    def window(self, result: Any, start: int, stop: int) -> Any:
        """The writable part of a result on a range."""
        return result[start:stop]

    @abstractmethod
    def copy_row(self, row: int, result: Any) -> None:
        """Write one row to the result, bit for bit."""
