"""Where the blocks of a view come from: received rows, some of them, mixed rows, and points beside rows.

All of them are lazy: nothing is read or computed before a pass asks for a block, and nothing of size n x d is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from mixtailor._types import Array, Floats, Integers
from mixtailor.updates.points import Point
from mixtailor.updates.reader import Reader, coordinates_of, values

__all__ = ["Beside", "Blocks", "Mixed", "Points", "Taken"]

Runs = list[tuple[int, int]]


class Blocks(Protocol):
    """Rows by blocks. A `Reader` gives the rows as they are stored; the classes below make others of them."""

    @property
    def n(self) -> int:
        """How many rows."""

    @property
    def made(self) -> bool:
        """Whether rows were computed that a combination must be formed of, to have the rounding that was decided on."""

    def runs(self) -> Runs:
        """Consecutive ranges of coordinates that a pass works on."""

    def block(self, start: int, stop: int) -> Any:
        """All rows on a range."""

    def coordinates(self, which: Integers) -> Array:
        """Single coordinates of all rows, in ascending order."""


@final
@dataclass(eq=False)
class Taken:
    """Some of the rows."""

    reader: Reader
    source: Blocks
    rows: Integers

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def made(self) -> bool:
        return self.source.made

    def runs(self) -> Runs:
        return self.source.runs()

    def block(self, start: int, stop: int) -> Any:
        return self.reader.space.take(self.source.block(start, stop), self.rows)

    def coordinates(self, which: Integers) -> Array:
        return self.source.coordinates(which)[self.rows]


@final
@dataclass(eq=False)
class Mixed:
    """Rows that are combinations of others: `mixing` times the block, made inside the kernel that needs them."""

    reader: Reader
    source: Blocks
    mixing: Floats
    made: bool = False
    shared: bool = False  # the stored rows, less one vector

    @classmethod
    def differences(cls, reader: Reader) -> "Mixed":
        r"""The rows :math:`x_i - b`, where the last stored row is the base b.

        Most queries do not depend on a shift that all rows share, and use the stored rows in place; blocks of
        differences would cost 1.4 to 2.5 times as much. They are made, in float64, for the other queries.
        """
        n = reader.n - 1
        return cls(reader, reader, np.column_stack([np.eye(n), -np.ones(n)]), shared=True)

    @property
    def n(self) -> int:
        return len(self.mixing)

    def runs(self) -> Runs:
        return self.reader.storage.runs(max(self.n, self.source.n))

    def block(self, start: int, stop: int) -> Any:
        self.made = not self.shared
        return self.reader.space.mix(self.source.block(start, stop), self.mixing)

    def coordinates(self, which: Integers) -> Array:
        rows = np.asarray(self.source.coordinates(which), np.float64)
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is found and named by the pass
            mixed = [weights[weights != 0.0] @ rows[weights != 0.0] for weights in self.mixing]  # zero times infinity
        return np.stack(mixed) if mixed else np.empty((0, len(which)))


@final
@dataclass(eq=False)
class Points:
    """Points as rows, in float64: results of rules on parts of the updates, for another rule."""

    reader: Reader
    points: Sequence[Point]
    made: bool = True

    @property
    def n(self) -> int:
        return len(self.points)

    def runs(self) -> Runs:
        return self.reader.storage.runs(self.n)

    def block(self, start: int, stop: int) -> Any:
        space = self.reader.space
        return space.block_of(space.stack([values(point, start, stop) for point in self.points]))

    def coordinates(self, which: Integers) -> Array:
        return np.vstack([coordinates_of(point, which) for point in self.points])


@final
class Beside:
    """Rows and points after them. (`below` are `Updates`, typed loosely: this module is below them.)

    Points may be `rounded` to the type of the rows: what a server receives when they are sent to it. Rows are then read
    in place; else all are copied to float64. Where blocks are `held`, for many rules that are tried on them, they take
    the memory of one update per point.
    """

    made = False

    def __init__(self, below: Any, points: Sequence[Point], *, rounded: bool = False, held: bool = False) -> None:
        self.below, self.points, self.rounded = below, tuple(points), rounded
        self.reader: Reader = below.reader
        self.source: Blocks = below.source
        self.n = below.n + len(points)
        self._held: dict[tuple[int, int], Any] | None = {} if held and self.reader.storage.in_place else None

    def runs(self) -> Runs:
        return self.source.runs() if self.rounded else self.reader.storage.runs(self.n)

    def block(self, start: int, stop: int) -> Any:
        if self._held is not None and (start, stop) in self._held:
            return self._held[start, stop]
        found = {point: values(point, start, stop) for point in dict.fromkeys(self.points)}
        vectors = [found[point] for point in self.points]
        block = self.reader.space.beside(self.source.block(start, stop), vectors, rounded=self.rounded)
        if self._held is not None:
            self._held[start, stop] = block
        return block

    def coordinates(self, which: Integers) -> Array:
        return np.vstack([self.source.coordinates(which), *(coordinates_of(point, which) for point in self.points)])
