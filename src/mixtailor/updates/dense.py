"""Rows in memory: a numpy matrix, a torch matrix on the CPU, a list of arrays. All are read in place."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixtailor.updates.base import Call
from mixtailor.updates.engine import Block, CpuEngine, Floats, Integers, from_bfloat16, like
from mixtailor.updates.home import Home

__all__ = ["Dense"]


class Dense(Home):
    """n flat numpy arrays of one length and type.

    Parameters
    ----------
    rows : sequence of arrays
        Flat: float64, float32, float16, or the bits of bfloat16 as uint16.
    """

    def __init__(self, rows: "Sequence[np.ndarray[Any, Any]]", call: Call, received: Sequence[int]) -> None:
        super().__init__(len(rows), len(rows[0]), CpuEngine(), call, received)
        self.rows = list(rows)
        self.dtype = rows[0].dtype
        self._half = self.dtype not in (np.dtype(np.float32), np.dtype(np.float64))
        # Half precision is widened, and columns of a matrix stored by columns are gathered, run by run.
        self._copied = self._half or not all(row.flags.c_contiguous for row in rows)
        self._like = like(np.dtype(np.float32) if self._half else self.dtype)
        self._addresses = np.array([row.ctypes.data for row in rows], dtype=np.intp)

    @classmethod
    def of(cls, matrix: "np.ndarray[Any, Any]", call: Call | None = None) -> "Dense":
        """The home of a matrix, in place where its rows are contiguous."""
        return cls(list(matrix), call or Call(), range(len(matrix)))

    def runs(self) -> list[tuple[int, int]]:
        return self.view_runs(self.n) if self._copied else super().runs()

    def block(self, start: int, stop: int) -> Block:
        if self._copied:
            return Block.of(np.stack([self._widen(row[start:stop]) for row in self.rows]))
        return Block(self._addresses + start * self.dtype.itemsize, self._like, stop - start, self)

    def _widen(self, run: Any) -> Any:
        return from_bfloat16(run) if self.dtype == np.uint16 else run.astype(self._like.dtype)

    def coordinates(self, which: Integers) -> Floats:
        return np.stack([self._widen(row[which]) if self._half else row[which] for row in self.rows])

    def only(self, rows: Sequence[int]) -> "Dense":
        return Dense([self.rows[row] for row in rows], self.call, [self.received[row] for row in rows])

    def new(self) -> Any:
        return np.empty(self.d, self.dtype)

    def slice(self, answer: Any, start: int, stop: int) -> Any:
        return answer[start:stop]

    def copy_row(self, row: int, answer: Any) -> None:
        answer[:] = self.rows[row]

    def assemble(self, matrices: list[Any]) -> Any:
        return np.concatenate(matrices, axis=1)

    def given_values(self, vector: Any, start: int, stop: int) -> Any:
        return vector[start:stop].astype(np.float64, copy=False)

    def given_coordinates(self, vector: Any, which: Integers) -> Floats:
        return vector[which].astype(np.float64)

    def row_bytes(self, row: int) -> list[Any]:
        return [np.ascontiguousarray(self.rows[row]).view(np.uint8).data]

    def _zero_is_exact(self, p: float) -> bool:
        # The least float32 difference is 1.4e-45, whose seventh power float64 still holds; float64 has its own least.
        return p <= (7.0 if self._like.dtype == np.float32 else 1.0)
