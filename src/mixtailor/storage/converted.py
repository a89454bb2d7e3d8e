"""Rows that the kernels cannot read in place: in files, compressed, of other types or strides. Converted by ranges."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, final

import numpy as np

from mixtailor._types import Array, Integers
from mixtailor.kernels.space import NUMBA, Block, from_bfloat16
from mixtailor.storage.kinds import Unfit, recast
from mixtailor.storage.rows import Broken, Rows

__all__ = ["ArraySource", "Converted", "Source"]

# Entries of one row that are read at once where a whole row is wanted.
WHOLE = 1 << 20

_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)
_LARGEST_BFLOAT16 = float(from_bfloat16(np.array([0x7F7F], np.uint16))[0])


class Source(ABC):
    """One row, read range by range. Abstract: an array in memory, a compressed one, or a part of a file.

    Attributes
    ----------
    dtype : numpy dtype
        The type of its values; uint16 where they are the bits of bfloat16.
    bits : bool
        Whether they are.
    size : int
        How many coordinates there are.
    in_memory : bool
        Whether reading is cheap.
    ordered : bool
        Whether ranges are to be read in order.
    """

    dtype: "np.dtype[Any]"
    bits: bool
    size: int
    in_memory: ClassVar[bool] = True
    ordered: ClassVar[bool] = False

    @abstractmethod
    def run(self, start: int, stop: int) -> Array:
        """The coordinates on a range, in their own type; raises `Unfit` where they can no longer be read."""

    def coordinates(self, which: Integers) -> Array:
        """Single coordinates, in ascending order."""
        parts = [np.empty(0, self.dtype)]
        for start in range(0, self.size, WHOLE):
            here = which[np.searchsorted(which, start) : np.searchsorted(which, start + WHOLE)]
            if len(here):
                parts.append(self.run(start, min(start + WHOLE, self.size))[here - start])
        return np.concatenate(parts)


@final
class ArraySource(Source):
    """An array in memory, of any strides."""

    def __init__(self, array: Array, bits: bool = False) -> None:
        self.array = array.reshape(-1) if array.flags.c_contiguous or array.ndim == 0 else array
        self.dtype, self.bits, self.size = array.dtype, bits, array.size

    def run(self, start: int, stop: int) -> Array:
        # `flat` iterates over any strides and copies no more than the range.
        return self.array[start:stop] if self.array.ndim == 1 else self.array.flat[start:stop]


@final
class Converted(Rows):
    """n sources of one length: each range is converted to one type and widened to float32 or float64.

    Extra memory is a range of all rows, so that those in files may exceed memory.

    Parameters
    ----------
    sources : sequence of Source
    dtype, bits : numpy dtype, bool
        The type that the rows are understood in and the result has; bits for bfloat16.
    """

    def __init__(self, sources: Sequence[Source], dtype: "np.dtype[Any]", bits: bool) -> None:
        self.n, self.d, self.space = len(sources), sources[0].size, NUMBA
        self.sources, self.dtype, self.bits = list(sources), dtype, bits
        self.tile = _DOUBLE if dtype == _DOUBLE else _SINGLE
        self.single, self.ordered = self.tile == _SINGLE, any(source.ordered for source in sources)
        self.in_memory = all(source.in_memory for source in sources)

    @property
    def largest(self) -> float:
        if self.bits:
            return _LARGEST_BFLOAT16
        return float(np.finfo(self.dtype).max if self.dtype.kind == "f" else np.iinfo(self.dtype).max)

    def _typed(self, row: int, values: Array) -> Array:
        return recast(values, self.sources[row].bits, self.dtype, self.bits)

    def _wide(self, row: int, values: Array) -> Array:
        typed = self._typed(row, values)
        return from_bfloat16(typed) if self.bits else typed

    def block(self, start: int, stop: int) -> Block:
        out = np.empty((self.n, stop - start), self.tile)
        for row, source in enumerate(self.sources):
            with _named(row):
                out[row] = self._wide(row, source.run(start, stop))
        return Block.of(out)

    def coordinates(self, which: Integers) -> Array:
        out = np.empty((self.n, len(which)), self.tile)
        for row, source in enumerate(self.sources):
            with _named(row):
                out[row] = self._wide(row, source.coordinates(which))
        return out

    def only(self, rows: Sequence[int]) -> "Converted":
        return Converted([self.sources[row] for row in rows], self.dtype, self.bits)

    def new(self) -> Any:
        return np.empty(self.d, self.dtype)

    def copy_row(self, row: int, result: Any) -> None:
        for start in range(0, self.d, WHOLE):
            stop = min(start + WHOLE, self.d)
            with _named(row):
                result[start:stop] = self._typed(row, self.sources[row].run(start, stop))


@contextmanager
def _named(row: int) -> Iterator[None]:
    """A source that can no longer be read breaks its row."""
    try:
        yield
    except Unfit as error:
        raise Broken([row], str(error)) from None
