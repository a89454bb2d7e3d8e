"""Rows that the kernels cannot read in place: in files, compressed, of other types or strides. Converted by ranges."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, final

import numpy as np

from mixtailor._types import Array, Integers
from mixtailor.kernels.space import BFLOAT16, NUMBA, Block, from_bfloat16
from mixtailor.storage.kinds import Unfit, recast
from mixtailor.storage.rows import Broken, Rows

__all__ = ["ArraySource", "Converted", "Source"]

# Entries of one row that are read at once where a whole row is wanted.
WHOLE = 1 << 20

_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)
_LARGEST_BFLOAT16 = float(from_bfloat16(np.array([0x7F7F], np.uint16))[0])


class Source(ABC):
    """One row, read range by range. Abstract: an array in memory, a compressed one, or a part of a file."""

    dtype: "np.dtype[Any]"  # of its values
    size: int  # how many coordinates there are
    in_memory: ClassVar[bool] = True  # whether reading is cheap
    ordered: ClassVar[bool] = False  # whether ranges are to be read in order

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

    def __init__(self, array: Array) -> None:
        self.array = array.reshape(-1) if array.flags.c_contiguous or array.ndim == 0 else array
        self.dtype, self.size = array.dtype, array.size

    def run(self, start: int, stop: int) -> Array:
        # `flat` iterates over any strides and copies no more than the range.
        return self.array[start:stop] if self.array.ndim == 1 else self.array.flat[start:stop]


@final
class Converted(Rows):
    """n sources of one length: each range is converted to one type and widened to float32 or float64.

    Extra memory is a range of all rows, so that those in files may exceed memory. The rows are understood in the type
    `dtype`, which the result has.
    """

    def __init__(self, sources: Sequence[Source], dtype: "np.dtype[Any]") -> None:
        self.n, self.d, self.space = len(sources), sources[0].size, NUMBA
        self.sources, self.dtype = list(sources), dtype
        self.tile = _DOUBLE if dtype == _DOUBLE else _SINGLE
        self.single, self.ordered = self.tile == _SINGLE, any(source.ordered for source in sources)
        self.in_memory = all(source.in_memory for source in sources)

    @property
    def largest(self) -> float:
        if self.dtype == BFLOAT16:
            return _LARGEST_BFLOAT16
        return float(np.finfo(self.dtype).max if self.dtype.kind == "f" else np.iinfo(self.dtype).max)

    def _typed(self, row: int, read: Callable[..., Array], *where: Any) -> Array:
        """What a source gives, in the type of the rows. One that can no longer be read breaks its row."""
        try:
            return recast(read(*where), self.dtype)
        except Unfit as error:
            raise Broken([row], str(error)) from None

    def _wide(self, row: int, read: Callable[..., Array], *where: Any) -> Array:
        typed = self._typed(row, read, *where)
        return recast(typed, _SINGLE) if self.dtype == BFLOAT16 else typed

    def block(self, start: int, stop: int) -> Block:
        out = np.empty((self.n, stop - start), self.tile)
        for row, source in enumerate(self.sources):
            out[row] = self._wide(row, source.run, start, stop)
        return Block.of(out)

    def coordinates(self, which: Integers) -> Array:
        out = np.empty((self.n, len(which)), self.tile)
        for row, source in enumerate(self.sources):
            out[row] = self._wide(row, source.coordinates, which)
        return out

    def only(self, rows: Sequence[int]) -> "Converted":
        return Converted([self.sources[row] for row in rows], self.dtype)

    def new(self) -> Any:
        return np.empty(self.d, self.dtype)

    def copy_row(self, row: int, result: Any) -> None:
        for start in range(0, self.d, WHOLE):
            stop = min(start + WHOLE, self.d)
            result[start:stop] = self._typed(row, self.sources[row].run, start, stop)
