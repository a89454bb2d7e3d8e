"""Engines: arithmetic on a block, that is, on all rows over one run of coordinates.

A home says where its rows lie; an engine computes with them. `CpuEngine` hands row addresses to the numba kernels,
so that a matrix, a list of arrays, the leaves of a tree and memory maps are all read in place.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from mixtailor.kernels import columns, combinations, distances, moments, norms, products
from mixtailor.updates.statistics import (
    AroundMedian,
    AroundTrimmed,
    Deviation,
    Extreme,
    Median,
    Sign,
    Statistic,
    Trimmed,
)

__all__ = ["Block", "CpuEngine", "Engine", "Floats", "Integers", "Pieces", "addresses_of"]

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.intp]
B = TypeVar("B")


class Engine(ABC, Generic[B]):
    """What a home computes with. Sums are small float64 numpy arrays; vectors stay where the rows are.

    Laws: a block is never written to. Sums are formed from differences and accumulate in float64; they are raw, so
    that extreme magnitudes overflow to infinity or underflow, which the caller sees and repairs by the scaled forms.
    A row with a non-finite entry gives non-finite sums, and `columns` and `combine` report it.
    """

    @abstractmethod
    def pair_sums(self, block: B, powers: Floats, factor: float = 1.0) -> Floats:
        """Sums of ``|factor (x_i - x_j)|^p``, (P, k, k); the maximum where p is infinite."""

    @abstractmethod
    def pair_sums_scaled(self, block: B, first: Integers, second: Integers, p: float, scales: Floats) -> Floats:
        """Sums of ``(|x_i - x_j| / scale)^p`` for the listed pairs."""

    @abstractmethod
    def pair_maxima(self, block: B, first: Integers, second: Integers) -> Floats:
        """Maxima of ``|x_i - x_j|`` for the listed pairs."""

    @abstractmethod
    def point_sums(self, block: B, point: Any, powers: Floats) -> Floats:
        """Sums of ``|x_i - point|^p``, (P, k); the maximum where p is infinite."""

    @abstractmethod
    def point_sums_scaled(self, block: B, point: Any, p: float, scales: Floats) -> Floats:
        """Sums of ``(|x_i - point| / scale_i)^p``, (k,)."""

    @abstractmethod
    def combination_sums(self, block: B, weights: Floats, p: float) -> Floats:
        """`point_sums` to the combination of the rows by `weights`, in one reading."""

    @abstractmethod
    def gram(self, block: B, about: int, inverse_scales: Floats) -> Floats:
        """Inner products of ``(x_i - x_about) * inverse_scales_i``; about = -1 is the origin."""

    def gram_rows(self, block: B, about: int, inverse_scales: Floats, which: Integers) -> Floats:
        """Some rows of `gram`."""
        lines: Floats = self.gram(block, about, inverse_scales)[which.tolist()]
        return lines

    @abstractmethod
    def point_dots(self, block: B, point: Any) -> Floats:
        """Inner products of the rows with a point."""

    @abstractmethod
    def dot(self, first: Any, second: Any) -> float:
        """Inner product of two points."""

    @abstractmethod
    def columns(self, block: B, statistic: Statistic) -> tuple[Any, bool]:
        """The statistic of each column, and whether all entries were finite."""

    @abstractmethod
    def columns_into(self, block: B, statistic: Statistic, out: Any) -> bool:
        """As `columns`, written to a slice of the answer in the answer's type."""

    @abstractmethod
    def combine(self, block: B, weights: Floats) -> tuple[Any, bool]:
        """The combination of the rows in float64, and whether it is finite."""

    @abstractmethod
    def combine_into(self, block: B, weights: Floats, out: Any) -> bool:
        """As `combine`, written to a slice of the answer in the answer's type."""

    @abstractmethod
    def mix(self, block: B, weights: Floats) -> B:
        """The block of the mixed rows, in float64."""

    @abstractmethod
    def beside(self, block: B, vectors: list[Any], *, rounded: bool = False) -> B:
        """The block with more rows, given in float64; `rounded` makes them of the rows' own type."""

    @abstractmethod
    def with_origin(self, block: B) -> B:
        """The block with one more row, of zeros."""

    @abstractmethod
    def take(self, block: B, rows: Integers) -> B:
        """The block with these rows only."""

    @abstractmethod
    def finite_rows(self, block: B) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Which rows have finite entries only."""

    @abstractmethod
    def zeros(self, width: int) -> Any:
        """A float64 vector of zeros, where the rows are."""

    @abstractmethod
    def vector(self, values: Floats) -> Any:
        """Numbers made on the host, where the rows are."""

    @abstractmethod
    def store(self, vector: Any, out: Any) -> None:
        """Write a float64 vector to a slice of the answer."""

    @abstractmethod
    def matrix(self, block: B) -> Any:
        """The rows as one new array."""


@dataclass(slots=True)
class Block:
    """k rows over one run of coordinates, by address. `holds` keeps their memory alive.

    With `mixing` the rows are ``mixing`` times those at the addresses, in float64, and are not there until a kernel
    mixes them, or `plain` does.
    """

    addresses: Integers
    like: "np.ndarray[Any, Any]"
    width: int
    holds: object
    mixing: Floats | None = None

    @classmethod
    def of(cls, rows: "np.ndarray[Any, Any]") -> "Block":
        """The block of a matrix whose rows are contiguous, in place."""
        return cls(addresses_of(rows), like(rows.dtype), rows.shape[1], rows)

    def plain(self) -> "Block":
        """The same rows, with addresses of their own."""
        if self.mixing is None:
            return self
        out = np.empty((len(self.mixing), self.width))
        self.make(out)
        return Block.of(out)

    def make(self, out: "np.ndarray[Any, Any]") -> bool:
        """Write the mixed rows, each with the bits that it has in distances to others; whether all are finite.

        Where far rows cancel inside a row, the last bit of a term may be larger than what is left.
        """
        assert self.mixing is not None
        mixing = np.ascontiguousarray(self.mixing)
        return bool(combinations.mix_run(self.addresses, self.like, 0, self.width, mixing, out))


@dataclass(slots=True)
class Pieces:
    """A run of an answer that lies in several leaves."""

    pieces: "list[np.ndarray[Any, Any]]"


_LIKE: "dict[Any, np.ndarray[Any, Any]]" = {
    np.dtype(np.float32): np.empty(0, np.float32),
    np.dtype(np.float64): np.empty(0, np.float64),
}


def addresses_of(matrix: "np.ndarray[Any, Any]") -> Integers:
    """Where the rows of a matrix begin."""
    first: int = matrix.__array_interface__["data"][0]
    return np.arange(len(matrix), dtype=np.intp) * matrix.strides[0] + first


def like(dtype: "np.dtype[Any]") -> "np.ndarray[Any, Any]":
    """The zero-length array that tells the kernels the rows' type."""
    return _LIKE[dtype]


class CpuEngine(Engine[Block]):
    """Blocks by address, computed by the numba kernels."""

    def pair_sums(self, block: Block, powers: Floats, factor: float = 1.0) -> Floats:
        return distances.pair_sums(block.addresses, block.like, block.width, powers, factor, block.mixing)

    def pair_norms(self, block: Block, powers: Floats) -> Floats:
        """The l_p distances themselves, (P, k, k), of float32 rows of any size; see `norms`."""
        block = block.plain()
        return norms.pair_norms(block.addresses, block.like, block.width, powers)

    def combination_norms(self, block: Block, weights: Floats, p: float) -> Floats:
        """The l_p distances themselves, for finite p, of float32 rows of any size to a combination of them."""
        return norms.combination_norms(block.addresses, block.like, block.width, weights, p)

    def point_norms(self, block: Block, point: Any, p: float) -> Floats:
        """The l_p distances themselves, for finite p, of float32 rows of any size to a point."""
        return norms.point_norms(block.addresses, block.like, block.width, np.ascontiguousarray(point), p)

    def pair_sums_scaled(self, block: Block, first: Integers, second: Integers, p: float, scales: Floats) -> Floats:
        block = block.plain()
        return distances.pair_sums_scaled(block.addresses, block.like, block.width, first, second, p, scales)

    def pair_maxima(self, block: Block, first: Integers, second: Integers) -> Floats:
        block = block.plain()
        return distances.pair_maxima(block.addresses, block.like, block.width, first, second)

    def point_sums(self, block: Block, point: Any, powers: Floats) -> Floats:
        block = block.plain()
        return distances.point_sums(block.addresses, block.like, block.width, point, powers)

    def point_sums_scaled(self, block: Block, point: Any, p: float, scales: Floats) -> Floats:
        block = block.plain()
        return distances.point_sums_scaled(block.addresses, block.like, block.width, point, p, scales)

    def combination_sums(self, block: Block, weights: Floats, p: float) -> Floats:
        block = block.plain()
        return distances.combination_sums(block.addresses, block.like, block.width, weights, p)

    def gram(self, block: Block, about: int, inverse_scales: Floats) -> Floats:
        block = block.plain()
        return products.gram(block.addresses, block.like, block.width, about, inverse_scales)

    def gram_rows(self, block: Block, about: int, inverse_scales: Floats, which: Integers) -> Floats:
        block = block.plain()
        return products.gram_rows(block.addresses, block.like, block.width, about, inverse_scales, which)

    def point_dots(self, block: Block, point: Any) -> Floats:
        block = block.plain()
        return products.point_dots(block.addresses, block.like, block.width, point)

    def dot(self, first: Any, second: Any) -> float:
        # Not numpy's: its own threads, under ours, wait for one another a hundred times longer than a product takes.
        one = Block.of(np.ascontiguousarray(first, np.float64)[None])
        return float(self.point_dots(one, np.ascontiguousarray(second, np.float64))[0])

    def columns(self, block: Block, statistic: Statistic) -> tuple[Any, bool]:
        block = block.plain()
        out = np.empty(block.width, block.like.dtype)
        finite = self._statistic(block, statistic, out)
        return out.astype(np.float64, copy=False), finite

    def columns_into(self, block: Block, statistic: Statistic, out: Any) -> bool:
        if not isinstance(out, Pieces) and out.dtype == block.like.dtype:
            # Mixed rows are rounded to the type of the answer before, and not after: as far off, and twice as fast.
            return self._statistic(block, statistic, out)
        values, finite = self.columns(block, statistic)
        self.store(values, out)
        return finite

    @staticmethod
    def _statistic(block: Block, statistic: Statistic, out: Any) -> bool:
        rows = block.addresses, block.like, block.width
        match statistic:
            case Median():
                return columns.median(*rows, out, block.mixing)
            case Trimmed(trim):
                return columns.trimmed_mean(*rows, trim, out, block.mixing)
            case AroundMedian(keep):
                return columns.around(*rows, -1, keep, out, block.mixing)
            case AroundTrimmed(trim, keep):
                return columns.around(*rows, trim, keep, out, block.mixing)
        if block.mixing is not None:
            plain = block.plain()
            wide = np.empty(block.width)
            finite = CpuEngine._statistic(plain, statistic, wide)
            with np.errstate(over="ignore"):
                out[:] = wide
            return finite
        match statistic:
            case Sign():
                return columns.sign_vote(*rows, out)
            case Deviation(ddof):
                return moments.deviation(*rows, ddof, out)
            case Extreme(largest):
                return moments.extreme(*rows, largest, out)
        raise TypeError(f"{statistic!r} is not a columnwise statistic of this package.")

    @staticmethod
    def _combined(block: Block, weights: Floats, out: Any) -> bool:
        if block.mixing is not None and len(weights) == 1 and weights[0] == 1.0:  # one mixed row as it is
            return block.make(out[None, :])
        block = block.plain()
        return combinations.combine(block.addresses, block.like, block.width, weights[None, :], out[None, :])

    def combine(self, block: Block, weights: Floats) -> tuple[Any, bool]:
        out = np.empty(block.width)
        return out, self._combined(block, weights, out)

    def combine_into(self, block: Block, weights: Floats, out: Any) -> bool:
        if not isinstance(out, Pieces) and out.dtype in _LIKE:
            return self._combined(block, weights, out)
        values, finite = self.combine(block, weights)
        self.store(values, out)
        return finite

    def mix(self, block: Block, weights: Floats) -> Block:
        if not len(weights):
            return Block.of(np.empty((0, block.width)))
        block = block.plain()
        return Block(block.addresses, block.like, block.width, block.holds, weights)

    def beside(self, block: Block, vectors: list[Any], *, rounded: bool = False) -> Block:
        block = block.plain()
        if rounded or block.like.dtype == np.float64:
            with np.errstate(over="ignore"):  # beyond the rows' type is infinite there
                added = {id(vector): np.ascontiguousarray(vector, block.like.dtype) for vector in vectors}
            places = [added[id(vector)].ctypes.data for vector in vectors]
            addresses = np.concatenate([block.addresses, np.array(places, np.intp)])
            return Block(addresses, block.like, block.width, (block.holds, added))
        # One tile has one type: rows of the parent are copied to float64 next to the new ones.
        out = np.empty((len(block.addresses) + len(vectors), block.width))
        combinations.gather(block.addresses, block.like, block.width, out[: len(block.addresses)])
        for row, vector in zip(out[len(block.addresses) :], vectors, strict=True):
            row[:] = vector
        return Block.of(out)

    def with_origin(self, block: Block) -> Block:
        block = block.plain()
        zeros = np.zeros(block.width, block.like.dtype)
        addresses = np.append(block.addresses, np.intp(zeros.ctypes.data))
        return Block(addresses, block.like, block.width, (block.holds, zeros))

    def take(self, block: Block, rows: Integers) -> Block:
        if block.mixing is not None:
            return Block(block.addresses, block.like, block.width, block.holds, block.mixing[rows])
        return Block(block.addresses[rows], block.like, block.width, block.holds)

    def gather(self, block: Block, out: "np.ndarray[Any, Any]") -> None:
        """Copy the rows next to each other, into columns of a wider array."""
        block = block.plain()
        rows = np.empty((len(block.addresses), block.width), block.like.dtype)
        combinations.gather(block.addresses, block.like, block.width, rows)
        out[:] = rows

    def finite_rows(self, block: Block) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        block = block.plain()
        return combinations.finite_rows(block.addresses, block.like, block.width)

    def zeros(self, width: int) -> Any:
        return np.zeros(width)

    def vector(self, values: Floats) -> Any:
        return values

    def store(self, vector: Any, out: Any) -> None:
        if isinstance(out, Pieces):
            at = 0
            for piece in out.pieces:
                self.store(vector[at : at + len(piece)], piece)
                at += len(piece)
        elif out.dtype == np.uint16:  # bfloat16 as numpy can hold it: round half to even on the bits
            out[:] = to_bfloat16(vector)
        else:
            with np.errstate(over="ignore"):  # a float64 answer beyond the rows' type is infinite there
                out[:] = vector

    def matrix(self, block: Block) -> Any:
        block = block.plain()
        out = np.empty((len(block.addresses), block.width), block.like.dtype)
        combinations.gather(block.addresses, block.like, block.width, out)
        return out


def to_bfloat16(values: Any) -> "np.ndarray[Any, np.dtype[np.uint16]]":
    """The bits of the nearest bfloat16, halves to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    # Rounding would carry some NaNs over the sign to zero, and a faulty row would pass for a sound one.
    rounded[(bits & 0x7FFFFFFF) > 0x7F800000] = 0x7FC0
    return rounded


def from_bfloat16(bits: "np.ndarray[Any, np.dtype[np.uint16]]") -> "np.ndarray[Any, np.dtype[np.float32]]":
    """The float32 values of bfloat16 bits, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
