"""Rows in memory: a numpy matrix, a torch matrix on the CPU, a list of arrays. All are read in place."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mixtailor.kernels import sampling, threads
from mixtailor.updates.base import Call
from mixtailor.updates.engine import Block, CpuEngine, Floats, Integers, addresses_of, like
from mixtailor.updates.home import SMALL_ENTRIES, Home

__all__ = ["Dense", "Flat", "fits"]

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_KERNELS = frozenset([_SINGLE, _DOUBLE])
_ENGINE = CpuEngine()  # it keeps nothing


class Flat(Home):
    """Rows of one array each, on the CPU. Abstract: `Dense` reads them in place, `Copied` run by run.

    Attributes
    ----------
    dtype : numpy dtype
        The type of the answer; uint16 where that is the bits of bfloat16.
    tile : numpy dtype
        The type of the blocks, float32 or float64.
    """

    def __init__(self, n: int, d: int, dtype: "np.dtype[Any]", call: Call, received: Sequence[int]) -> None:
        super().__init__(n, d, _ENGINE, call, received)
        self.dtype = dtype
        self.tile = _DOUBLE if dtype == _DOUBLE else _SINGLE

    @abstractmethod
    def block(self, start: int, stop: int) -> Block: ...

    @abstractmethod
    def only(self, rows: Sequence[int]) -> "Flat": ...

    def new(self) -> Any:
        return np.empty(self.d, self.dtype)

    @property
    def largest(self) -> float:
        return float(np.finfo(self.dtype).max if self.dtype.kind == "f" else np.iinfo(self.dtype).max)

    def slice(self, answer: Any, start: int, stop: int) -> Any:
        return answer[start:stop]

    def assemble(self, matrices: list[Any]) -> Any:
        return np.concatenate(matrices, axis=1)

    def given_values(self, vector: Any, start: int, stop: int) -> Any:
        return vector[start:stop].astype(np.float64, copy=False)

    def given_coordinates(self, vector: Any, which: Integers) -> Floats:
        return np.asarray(vector[which], np.float64)

    def _zero_is_exact(self, p: float) -> bool:
        # The least float32 difference is 1.4e-45, whose seventh power float64 still holds; float64 has its own least.
        return p <= (7.0 if self.tile == np.float32 else 1.0)


class Dense(Flat):
    """n flat numpy arrays of one length and type, each contiguous, read where they are.

    Parameters
    ----------
    rows : sequence of arrays, or a matrix
        Flat, contiguous, all float32 or all float64.
    """

    in_place: ClassVar[bool] = True

    def __init__(
        self,
        rows: "Sequence[np.ndarray[Any, Any]] | np.ndarray[Any, Any]",
        call: Call,
        received: Sequence[int],
        addresses: Integers | None = None,
    ) -> None:
        super().__init__(len(rows), len(rows[0]), rows[0].dtype, call, received)
        self.rows = rows
        self._like = like(self.dtype)
        if addresses is None:
            addresses = np.array([row.__array_interface__["data"][0] for row in rows], dtype=np.intp)
        self._addresses = addresses

    @classmethod
    def of(cls, matrix: "np.ndarray[Any, Any]", call: Call | None = None) -> "Dense":
        """The home of a matrix, in place where its rows are contiguous."""
        if not fits(matrix[0]) or not matrix.flags.aligned:
            matrix = np.ascontiguousarray(matrix, np.float32 if matrix.dtype.itemsize < 4 else np.float64)
        return cls(matrix, call or Call(), range(len(matrix)), addresses_of(matrix))

    def block(self, start: int, stop: int) -> Block:
        return Block(self._addresses + start * self.dtype.itemsize, self._like, stop - start, self.rows)

    def coordinates(self, which: Integers) -> Floats:
        out = np.empty((self.n, len(which)), self.dtype)
        if self.n * self.d <= SMALL_ENTRIES:
            sampling.pick(self._addresses, self._like, self.d, which, out)
        else:
            threads.over([partial(self._pick, which, out, row) for row in range(self.n)])
        return out

    def _pick(self, which: Integers, out: "np.ndarray[Any, Any]", row: int) -> None:
        sampling.pick(self._addresses[row : row + 1], self._like, self.d, which, out[row : row + 1])

    def only(self, rows: Sequence[int]) -> "Dense":
        kept = [self.rows[row] for row in rows]
        return Dense(kept, self.call, [self.received[row] for row in rows], self._addresses[list(rows)])

    def copy_row(self, row: int, answer: Any) -> None:
        answer[:] = self.rows[row]

    def row_bytes(self, row: int) -> Iterable[Any]:
        return [self.rows[row].view(np.uint8).data]


def fits(row: "np.ndarray[Any, Any]") -> bool:
    """Whether the kernels can read an array in place: float32 or float64, contiguous, aligned."""
    flags = row.flags
    return flags.c_contiguous and flags.aligned and row.dtype in _KERNELS
