"""Compressed updates: sparse ones, and 8-bit ones with scales. They are expanded range by range."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np

from mixtailor._types import Array, Integers
from mixtailor.kernels.space import NUMBA, Block
from mixtailor.storage.rows import Rows

__all__ = ["Expanded", "Quantised", "Sparse"]


class Expanded(Rows):
    """Float32 rows that exist on one range of coordinates at a time."""

    space, single = NUMBA, True

    @abstractmethod
    def expand(self, row: int, start: int, stop: int) -> Array:
        """One row on a range, in float32."""

    @property
    def largest(self) -> float:
        return float(np.finfo(np.float32).max)

    def block(self, start: int, stop: int) -> Block:
        out = np.empty((self.n, stop - start), np.float32)
        for row in range(self.n):
            out[row] = self.expand(row, start, stop)
        return Block.of(out)

    def new(self) -> Array:
        return np.empty(self.d, np.float32)

    def window(self, result: Any, start: int, stop: int) -> Any:
        return result[start:stop]

    def copy_row(self, row: int, result: Any) -> None:
        result[:] = self.expand(row, 0, self.d)


@final
class Sparse(Expanded):
    """Rows that are zero but for some coordinates.

    Parameters
    ----------
    indices : sequence of arrays
        Which coordinates each row has, ascending.
    values : sequence of arrays
        Their values, in float32.
    d : int
        The coordinates of a row.
    """

    def __init__(self, indices: Sequence[Integers], values: Sequence[Array], d: int) -> None:
        self.indices, self.values, self.n, self.d = list(indices), list(values), len(indices), d

    def expand(self, row: int, start: int, stop: int) -> Array:
        indices = self.indices[row]
        low, high = np.searchsorted(indices, (start, stop))
        out = np.zeros(stop - start, np.float32)
        out[indices[low:high] - start] = self.values[row][low:high]
        return out

    def coordinates(self, which: Integers) -> Array:
        found = np.zeros((self.n, len(which)), np.float32)
        for row, (indices, values) in enumerate(zip(self.indices, self.values, strict=True)):
            if len(indices):
                places = np.minimum(np.searchsorted(indices, which), len(indices) - 1)
                found[row] = np.where(indices[places] == which, values[places], np.float32(0.0))
        return found

    def only(self, rows: Sequence[int]) -> "Sparse":
        return Sparse([self.indices[row] for row in rows], [self.values[row] for row in rows], self.d)

    def row_bytes(self, row: int) -> Iterable[Any]:
        return [self.indices[row], self.values[row]]


@final
class Quantised(Expanded):
    """Rows of 8-bit integers, times a scale for each group of consecutive coordinates.

    Parameters
    ----------
    codes : sequence of arrays
        The integers, d of them for each row.
    scales : sequence of arrays
        A float32 number for each group.
    group : int
        How many coordinates share a scale; the last group may have fewer.
    d : int
        The coordinates of a row.
    """

    def __init__(self, codes: Sequence[Array], scales: Sequence[Array], group: int, d: int) -> None:
        self.codes, self.scales, self.group, self.n, self.d = list(codes), list(scales), group, len(codes), d

    def expand(self, row: int, start: int, stop: int) -> Array:
        first, last = start // self.group, -(-stop // self.group)
        spread = np.repeat(self.scales[row][first:last], self.group)
        with np.errstate(over="ignore"):  # beyond float32 is infinite, and the row is then removed and named
            product = self.codes[row][start:stop] * spread[start - first * self.group : stop - first * self.group]
        return np.asarray(product, np.float32)

    def coordinates(self, which: Integers) -> Array:
        pairs = zip(self.codes, self.scales, strict=True)
        with np.errstate(over="ignore"):
            return np.array([codes[which] * scales[which // self.group] for codes, scales in pairs], np.float32)

    def only(self, rows: Sequence[int]) -> "Quantised":
        return Quantised([self.codes[row] for row in rows], [self.scales[row] for row in rows], self.group, self.d)

    def row_bytes(self, row: int) -> Iterable[Any]:
        return [self.codes[row], self.scales[row]]
