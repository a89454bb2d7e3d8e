"""Rows that the kernels read in place: `Matrix`, one layer, and `Layers`, several storages side by side."""

from collections.abc import Sequence
from functools import partial
from typing import Any, final

import numpy as np

from mixtailor._types import Array, Integers
from mixtailor.kernels import sampling, threads
from mixtailor.kernels.space import LIKE, NUMBA, Block, addresses_of
from mixtailor.storage.converted import ArraySource, Converted
from mixtailor.storage.kinds import KERNEL_TYPES
from mixtailor.storage.rows import Rows, run_width, split

__all__ = ["Layers", "Matrix", "fits", "flat_rows"]

# Below this many entries, starting another thread takes longer than it saves.
SMALL_ENTRIES = 1 << 19


@final
class Matrix(Rows):
    """n flat numpy arrays of one length, each contiguous, all float32 or all float64; or such a matrix.

    `addresses` says where the rows begin, if that is known.
    """

    in_place = True

    def __init__(self, rows: Sequence[Array] | Array, addresses: Integers | None = None) -> None:
        first = rows[0]
        self.n, self.d, self.dtype, self.space = len(rows), len(first), first.dtype, NUMBA
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
        if rows is None and self.n * self.d <= self.space.run_entries:
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
        return result[start:stop]  # as by default, without another file on the way of the smallest call

    def copy_row(self, row: int, result: Any) -> None:
        result[:] = self.rows[row]


def fits(row: Array) -> bool:
    """Whether the kernels can read an array in place: float32 or float64, contiguous, aligned."""
    flags = row.flags
    return flags.c_contiguous and flags.aligned and row.dtype in KERNEL_TYPES


def flat_rows(arrays: Sequence[Array], dtype: "np.dtype[Any]") -> Matrix | Converted:
    """A storage for arrays in memory: in place where the kernels can read them, else range by range."""
    for array in arrays:  # as `fits` has it, without a call for each array
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned and array.dtype == dtype and dtype in KERNEL_TYPES):
            break
    else:
        return Matrix([array.reshape(-1) for array in arrays])
    return Converted([ArraySource(array) for array in arrays], dtype)


@final
class Layers(Rows):
    """n rows, each of several layers, every layer read where it is. All storages are of one space."""

    def __init__(self, layers: Sequence[Rows], n: int) -> None:
        self.layers = list(layers)
        self.offsets = np.concatenate([[0], np.cumsum([layer.d for layer in layers])]).astype(int)
        self.n, self.d, self.space = n, int(self.offsets[-1]), layers[0].space if layers else NUMBA
        self.single = all(layer.single for layer in layers)
        self.in_memory = all(layer.in_memory for layer in layers)
        self.ordered = any(layer.ordered for layer in layers)

    @property
    def largest(self) -> float:
        return min(layer.largest for layer in self.layers)

    def runs(self, rows: int | None = None) -> list[tuple[int, int]]:
        if rows is None and self.n * self.d <= self.space.view_entries:
            return [(0, self.d)]
        small = run_width(max(rows or 0, self.n), self.space.view_entries)
        return self.ranges(small, small if rows is not None else run_width(self.n, self.space.run_entries))

    def pieces(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """(layer, start, stop) of the layers that a range covers, in their own coordinates."""
        pieces = []
        index = int(np.searchsorted(self.offsets, start, side="right")) - 1
        while index < len(self.offsets) - 1 and (low := int(self.offsets[index])) < stop:
            high = int(self.offsets[index + 1])
            if high > low:
                pieces.append((index, max(start, low) - low, min(stop, high) - low))
            index += 1
        return pieces

    def ranges(self, small: int, large: int) -> list[tuple[int, int]]:
        """Ranges inside a large layer, of width `large`, or over several small ones, of at most about `small`."""
        runs: list[tuple[int, int]] = []
        start = 0  # of the small layers collected so far
        for low, high in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True):
            alone = high - low >= max(small // 4, 1)
            if (alone or high - start > small) and low > start:
                runs.append((start, low))
                start = low
            if alone:
                runs.extend(split(low, high, large))
                start = high
        if self.d > start or not runs:
            runs.append((start, self.d))
        return runs

    def block(self, start: int, stop: int) -> Any:
        blocks = [self.layers[layer].block(low, high) for layer, low, high in self.pieces(start, stop)]
        if not blocks:
            return self.layers[0].block(0, 0) if self.layers else Block.of(np.empty((self.n, 0)))
        return blocks[0] if len(blocks) == 1 else self.space.block_of(self.space.matrix(blocks))

    def coordinates(self, which: Integers) -> Array:
        out = np.empty((self.n, len(which)), np.float32 if self.single else np.float64)
        owner = np.searchsorted(self.offsets, which, side="right") - 1
        for layer in np.unique(owner):
            here = owner == layer
            out[:, here] = self.layers[layer].coordinates(which[here] - self.offsets[layer])
        return out

    def only(self, rows: Sequence[int]) -> "Layers":
        return Layers([layer.only(rows) for layer in self.layers], len(rows))

    def new(self) -> Any:
        return [layer.new() for layer in self.layers]

    def window(self, result: Any, start: int, stop: int) -> Any:
        pieces = [result[layer][low:high] for layer, low, high in self.pieces(start, stop)]
        return pieces[0] if len(pieces) == 1 else pieces

    def copy_row(self, row: int, result: Any) -> None:
        for layer, part in zip(self.layers, result, strict=True):
            layer.copy_row(row, part)
