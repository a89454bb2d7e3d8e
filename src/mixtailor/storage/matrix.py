"""Rows in memory that the kernels read in place: a matrix, or a list of flat arrays."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, final

import numpy as np

from mixtailor._types import Array, Integers
from mixtailor.kernels import sampling, threads
from mixtailor.kernels.space import LIKE, Block, Numba, addresses_of
from mixtailor.storage.rows import RUN_ENTRIES, Rows

__all__ = ["KERNEL_TYPES", "NUMBA", "Matrix", "fits"]

NUMBA = Numba()  # it keeps no state

KERNEL_TYPES = frozenset([np.dtype(np.float32), np.dtype(np.float64)])
# Below this many entries, starting another thread takes longer than it saves.
SMALL_ENTRIES = 1 << 19


@final
class Matrix(Rows):
    """n flat numpy arrays of one length and type, each contiguous.

    Parameters
    ----------
    rows : sequence of arrays, or a matrix
        Flat, contiguous, all float32 or all float64.
    addresses : array, optional
        Where the rows begin, if that is known.
    """

    in_place: ClassVar[bool] = True

    def __init__(self, rows: Sequence[Array] | Array, addresses: Integers | None = None) -> None:
        self.n, self.d = len(rows), len(rows[0])
        self.dtype, self.space = rows[0].dtype, NUMBA
        self.single = self.dtype.itemsize == 4
        self.rows, self._like = rows, LIKE[self.dtype]
        if addresses is None:
            addresses = np.array([row.__array_interface__["data"][0] for row in rows], dtype=np.intp)
        self._addresses = addresses

    @classmethod
    def of(cls, matrix: Array) -> "Matrix":
        """The storage of a matrix: in place where its rows are contiguous, else a copy."""
        if not fits(matrix[0]) or not matrix.flags.aligned:
            matrix = np.ascontiguousarray(matrix, np.float32 if matrix.dtype.itemsize < 4 else np.float64)
        return cls(matrix, addresses_of(matrix))

    @property
    def largest(self) -> float:
        return float(np.finfo(self.dtype).max)

    def runs(self, rows: int | None = None) -> list[tuple[int, int]]:
        if rows is None and self.n * self.d <= RUN_ENTRIES:
            return [(0, self.d)]
        return super().runs(rows)

    def block(self, start: int, stop: int) -> Block:
        return Block(self._addresses + start * self.dtype.itemsize, self._like, stop - start, self.rows)

    def coordinates(self, which: Integers) -> Array:
        out = np.empty((self.n, len(which)), self.dtype)
        if self.n * self.d <= SMALL_ENTRIES:
            sampling.pick(self._addresses, self._like, self.d, which, out)
        else:
            threads.over([partial(self._pick, which, out, row) for row in range(self.n)])
        return out

    def _pick(self, which: Integers, out: Array, row: int) -> None:
        sampling.pick(self._addresses[row : row + 1], self._like, self.d, which, out[row : row + 1])

    def only(self, rows: Sequence[int]) -> "Matrix":
        return Matrix([self.rows[row] for row in rows], self._addresses[list(rows)])

    def new(self) -> Any:
        return np.empty(self.d, self.dtype)

    def window(self, result: Any, start: int, stop: int) -> Any:
        return result[start:stop]

    def copy_row(self, row: int, result: Any) -> None:
        result[:] = self.rows[row]

    def row_bytes(self, row: int) -> Iterable[Any]:
        return [self.rows[row].view(np.uint8).data]


def fits(row: Array) -> bool:
    """Whether the kernels can read an array in place: float32 or float64, contiguous, aligned."""
    flags = row.flags
    return flags.c_contiguous and flags.aligned and row.dtype in KERNEL_TYPES
