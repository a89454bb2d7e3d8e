"""Rows that the kernels cannot read in place: half precision, other strides, other types. Converted range by range."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, final

import numpy as np

from mixtailor._types import Array, Integers
from mixtailor.kernels.space import NUMBA, Block, from_bfloat16
from mixtailor.storage.kinds import Unfit, recast
from mixtailor.storage.rows import Broken, Rows

__all__ = ["ArraySource", "Converted", "Source", "Strided"]

# Entries of one row that are read at once where a whole row is wanted.
WHOLE = 1 << 20

_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)
_LARGEST_BFLOAT16 = float(from_bfloat16(np.array([0x7F7F], np.uint16))[0])


class Source(ABC):
    """One row, read range by range. Abstract: an array in memory, or a part of a file.

    Attributes
    ----------
    dtype : numpy dtype
        The type of its values; uint16 where they are the bits of bfloat16.
    bits : bool
        Whether they are.
    size : int
        How many coordinates there are.
    ordered : bool
        Whether ranges are to be read in order.
    """

    dtype: "np.dtype[Any]"
    bits: bool
    size: int
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

    def coordinates(self, which: Integers) -> Array:
        return self.array[which] if self.array.ndim == 1 else self.array.flat[which]


class Converted(Rows, ABC):
    """n sources of one length: each range is converted to one type and widened to float32 or float64. Abstract.

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

    @property
    def largest(self) -> float:
        if self.bits:
            return _LARGEST_BFLOAT16
        return float(np.finfo(self.dtype).max if self.dtype.kind == "f" else np.iinfo(self.dtype).max)

    def read(self, row: int, start: int, stop: int) -> Array:
        """A range of one row, in its own type."""
        try:
            return self.sources[row].run(start, stop)
        except Unfit as error:
            raise Broken([row], str(error)) from None

    def _pick(self, row: int, which: Integers) -> Array:
        try:
            return self.sources[row].coordinates(which)
        except Unfit as error:
            raise Broken([row], str(error)) from None

    def _wide(self, row: int, values: Array) -> Array:
        typed = recast(values, self.sources[row].bits, self.dtype, self.bits)
        return from_bfloat16(typed) if self.bits else typed

    def block(self, start: int, stop: int) -> Block:
        out = np.empty((self.n, stop - start), self.tile)
        for row, target in enumerate(out):
            target[:] = self._wide(row, self.read(row, start, stop))
        return Block.of(out)

    def coordinates(self, which: Integers) -> Array:
        rows = [self._wide(row, self._pick(row, which)) for row in range(self.n)]
        return np.stack(rows).astype(self.tile, copy=False)

    def only(self, rows: Sequence[int]) -> "Converted":
        return type(self)([self.sources[row] for row in rows], self.dtype, self.bits)

    def new(self) -> Any:
        return np.empty(self.d, self.dtype)

    def window(self, result: Any, start: int, stop: int) -> Any:
        return result[start:stop]

    def copy_row(self, row: int, result: Any) -> None:
        for start in range(0, self.d, WHOLE):
            stop = min(start + WHOLE, self.d)
            result[start:stop] = recast(self.read(row, start, stop), self.sources[row].bits, self.dtype, self.bits)

    def row_bytes(self, row: int) -> Iterable[Any]:
        for start in range(0, self.d, WHOLE):
            yield np.ascontiguousarray(self.read(row, start, min(start + WHOLE, self.d))).view(np.uint8).data


@final
class Strided(Converted):
    """n arrays in memory, of any type and strides."""
