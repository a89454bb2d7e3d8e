"""Rows of which only a slice of the coordinates is stored here; other processes store the rest."""

from collections.abc import Sequence
from typing import Any, final

from mixtailor._types import Array, Integers
from mixtailor.storage.rows import Rows

__all__ = ["Shard"]


@final
class Shard(Rows):
    """All n rows on one slice of the coordinates. Coordinates are counted over all slices.

    What is summed over coordinates is this slice's share: the group of the call adds up the shares of all processes.
    The slice is `part` and begins at `start`; all slices together have d coordinates. The first result is written to
    `result`, where that is given: flat, of the type of the rows, and no row's memory.
    """

    def __init__(self, part: Rows, start: int, d: int, result: Any = None) -> None:
        self.part, self.start, self._result = part, start, result
        self.n, self.d, self.space, self.single = part.n, d, part.space, part.single
        self.ordered, self.in_place, self.in_memory = part.ordered, part.in_place, part.in_memory

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.start + self.part.d

    @property
    def largest(self) -> float:
        return self.part.largest

    def runs(self, rows: int | None = None) -> list[tuple[int, int]]:
        return [(start + self.start, stop + self.start) for start, stop in self.part.runs(rows)]

    def block(self, start: int, stop: int) -> Any:
        return self.part.block(start - self.start, stop - self.start)

    def coordinates(self, which: Integers) -> Array:
        """Those of the coordinates that are stored here."""
        return self.part.coordinates(which - self.start)

    def only(self, rows: Sequence[int]) -> "Shard":
        return Shard(self.part.only(rows), self.start, self.d)

    def new(self) -> Any:
        result, self._result = self._result, None
        return self.part.new() if result is None else result

    def window(self, result: Any, start: int, stop: int) -> Any:
        return self.part.window(result, start - self.start, stop - self.start)

    def copy_row(self, row: int, result: Any) -> None:
        self.part.copy_row(row, result)
