"""Rows that cannot be read in place: half precision, other strides, other types, files. Copied run by run."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mixtailor.updates.arrays import Array, recast
from mixtailor.updates.base import Call
from mixtailor.updates.dense import Dense, Flat, fits
from mixtailor.updates.engine import Block, Floats, Integers, from_bfloat16

__all__ = ["Copied", "Held", "Source", "flat_home"]

# Entries of one row that are read at once where a whole row is wanted.
_RUN = 1 << 20

_LARGEST_BFLOAT16 = float(from_bfloat16(np.array([0x7F7F], np.uint16))[0])


class Source(ABC):
    """One row, read run by run.

    Attributes
    ----------
    dtype : numpy dtype
        The type its runs have; uint16 where they are the bits of bfloat16.
    bits : bool
        Whether they are.
    size : int
        How many coordinates there are.
    """

    dtype: "np.dtype[Any]"
    bits: bool
    size: int

    @abstractmethod
    def run(self, start: int, stop: int) -> Array:
        """Some coordinates, in the type they have."""

    def coordinates(self, which: Integers) -> Array:
        """Single coordinates, given in order."""
        parts = [np.empty(0, self.dtype)]
        for start in range(0, self.size, _RUN):
            here = which[np.searchsorted(which, start) : np.searchsorted(which, start + _RUN)]
            if len(here):
                parts.append(self.run(start, min(start + _RUN, self.size))[here - start])
        return np.concatenate(parts)


class Held(Source):
    """An array in memory, of any strides."""

    def __init__(self, array: Array, bits: bool = False) -> None:
        self.array = array.reshape(-1) if array.flags.c_contiguous or array.ndim == 0 else array
        self.dtype, self.bits, self.size = array.dtype, bits, array.size

    def run(self, start: int, stop: int) -> Array:
        # `flat` walks over any strides and copies no more than the run.
        return self.array[start:stop] if self.array.ndim == 1 else self.array.flat[start:stop]

    def coordinates(self, which: Integers) -> Array:
        return self.array[which] if self.array.ndim == 1 else self.array.flat[which]


class Copied(Flat):
    """n rows of one length, each run converted to the type that most have and widened to float32 or float64.

    Parameters
    ----------
    rows : sequence of Source
    dtype, bits : numpy dtype, bool
        The type that the rows are understood in and the answer has; bits for bfloat16.
    """

    def __init__(
        self, rows: Sequence[Source], dtype: "np.dtype[Any]", bits: bool, call: Call, received: Sequence[int]
    ) -> None:
        super().__init__(len(rows), rows[0].size, dtype, call, received)
        self.rows = list(rows)
        self.bits = bits

    @property
    def largest(self) -> float:
        return _LARGEST_BFLOAT16 if self.bits else super().largest

    def runs(self) -> list[tuple[int, int]]:
        return self.view_runs(self.n)

    def block(self, start: int, stop: int) -> Block:
        out = np.empty((self.n, stop - start), self.tile)
        for index, target in enumerate(out):
            target[:] = self._wide(index, self._run(index, start, stop))
        return Block.of(out)

    def _run(self, index: int, start: int, stop: int) -> Array:
        return self.rows[index].run(start, stop)

    def _typed(self, index: int, run: Array) -> Array:
        return recast(run, self.rows[index].bits, self.dtype, self.bits)

    def _wide(self, index: int, run: Array) -> Array:
        typed = self._typed(index, run)
        return from_bfloat16(typed) if self.bits else typed

    def coordinates(self, which: Integers) -> Floats:
        rows = [self._wide(index, self._pick(index, which)) for index in range(self.n)]
        return np.stack(rows).astype(self.tile, copy=False)

    def _pick(self, index: int, which: Integers) -> Array:
        return self.rows[index].coordinates(which)

    def only(self, rows: Sequence[int]) -> "Copied":
        received = [self.received[row] for row in rows]
        return type(self)([self.rows[row] for row in rows], self.dtype, self.bits, self.call, received)

    def copy_row(self, row: int, answer: Any) -> None:
        for start in range(0, self.d, _RUN):
            stop = min(start + _RUN, self.d)
            answer[start:stop] = self._typed(row, self._run(row, start, stop))

    def row_bytes(self, row: int) -> Iterable[Any]:
        for start in range(0, self.d, _RUN):
            yield np.ascontiguousarray(self._run(row, start, min(start + _RUN, self.d))).view(np.uint8).data


def flat_home(
    rows: Sequence[Array], bits: Sequence[bool], dtype: "np.dtype[Any]", to_bits: bool, received: Sequence[int]
) -> Flat:
    """A home for arrays in memory: in place where the kernels can, else run by run."""
    if all(row.dtype == dtype and fits(row) for row in rows):
        return Dense([row.reshape(-1) for row in rows], Call(), received)
    return Copied([Held(row, own) for row, own in zip(rows, bits, strict=True)], dtype, to_bits, Call(), received)
