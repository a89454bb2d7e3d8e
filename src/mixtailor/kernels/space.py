"""`Space`: the functions that compute on blocks; `Numba`: those for rows in memory, passed to the kernels by address.

A block is all rows of a storage over one range of coordinates. A storage says where its rows are; its space computes
with them. So a matrix, a list of arrays and the layers of a model are all read in place. `mixtailor.kernels.tensors`
has the functions for torch tensors on a device.

Lengths have the full range of float64: a sum of p-th powers that overflows or vanishes inside a block is formed again
there, in the unit of its own largest difference, while the block is still in the cache. Nothing above this module
repairs a sum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, final

import numpy as np

from mixtailor._types import Array, Floats, Integers
from mixtailor.kernels import (
    columns,
    columnwise,
    combinations,
    distances,
    moments,
    norms,
    products,
    sketches,
    threads,
    weighted,
)

__all__ = ["BFLOAT16", "LIKE", "NUMBA", "Block", "Numba", "Space", "addresses_of", "from_bfloat16", "to_bfloat16"]

BFLOAT16 = np.dtype([("bfloat16", "<u2")])  # a type that numpy does not have, as its bits
# Below this, a sum of p-th powers has lost digits to underflow.
_TINY = 1e-280

B = TypeVar("B")


class Space(Protocol[B]):
    """The functions that compute on blocks. Lengths and sums are small float64 arrays; vectors stay where the rows are.

    Laws: a block is never written to. Lengths are formed from differences and accumulate in float64. A row with a
    non-finite entry gives non-finite lengths and sums, and `columns` and `combine` report it.
    """

    by_address: ClassVar[bool] = False  # whether blocks are addresses, as `mixtailor.kernels.panels` takes them
    # A pass works on ranges of about this many entries (all rows together): enough to keep a thread busy, few enough
    # to share out evenly. Ranges do not depend on the number of threads, so neither do the bits of a sum.
    run_entries: ClassVar[int] = 1 << 20
    view_entries: ClassVar[int] = 1 << 17  # views copy a range before they work on it, so theirs are smaller

    # Lengths.

    def pair_lengths(self, block: B, powers: Floats) -> Any:
        """The l_p distances between all rows, (P, k, k)."""

    def point_lengths(self, block: B, point: Any, powers: Floats) -> Any:
        """The l_p distances of the rows to a point, (P, k)."""

    def combination_lengths(self, block: B, weights: Floats, p: float) -> Any:
        """The l_p distances of the rows to their combination by `weights`, (k,)."""
        return self.point_lengths(block, self.combine(block, weights)[0], np.array([p]))[0]

    # Products.

    def gram(self, block: B, about: int, inverse_scales: Floats) -> Any:
        """Inner products of ``(x_i - x_about) * inverse_scales_i``; about = -1 is the origin."""

    def gram_rows(self, block: B, about: int, inverse_scales: Floats, which: Integers) -> Any:
        """Some rows of `gram`."""
        return self.gram(block, about, inverse_scales)[which.tolist()]

    def point_dots(self, block: B, point: Any) -> Any:
        """Inner products of the rows with a point."""

    def sketch(self, block: B, start: int, key: int, size: int) -> Any:
        """Sketches of the rows, (k, size): the block's first coordinate is the one at `start`."""

    # Vectors.

    def columns(self, block: B, statistic: columnwise.Statistic) -> tuple[Any, Any]:
        """The statistic of each column in float64, and whether all entries were finite."""

    def columns_into(self, block: B, statistic: columnwise.Statistic, out: Any) -> Any:
        """As `columns`, written to a window of the result, in its type; whether all entries were finite."""
        values, finite = self.columns(block, statistic)
        self.store(values, out)
        return finite

    def combine(self, block: B, weights: Floats) -> tuple[Any, Any]:
        """The combination of the rows in float64, and whether it is finite."""

    def combine_into(self, block: B, weights: Floats, out: Any) -> Any:
        """As `combine`, written to a window of the result, in its type; whether it is finite."""
        values, finite = self.combine(block, weights)
        self.store(values, out)
        return finite

    def zeros(self, width: int) -> Any:
        """A float64 vector of zeros."""

    def vector(self, values: Any) -> Any:
        """A vector from outside, in float64."""

    def host(self, vector: Any) -> Floats:
        """A vector as a float64 numpy array."""

    def stack(self, parts: Sequence[Any]) -> Any:
        """Small results of one shape as one."""

    def store(self, vector: Any, out: Any) -> None:
        """Write a float64 vector to a window of the result, which may be a list of pieces."""
        at = 0
        for piece in out if isinstance(out, list) else [out]:
            self.write(vector[at : at + len(piece)], piece)
            at += len(piece)

    def write(self, vector: Any, out: Any) -> None:
        """Write a float64 vector to one piece of the result."""

    # Blocks.

    def mix(self, block: B, weights: Floats) -> B:
        """The block of the mixed rows, in float64."""

    def beside(self, block: B, vectors: list[Any], *, rounded: bool = False) -> B:
        """The block with more rows, given in float64; `rounded` converts them to the type of the rows."""

    def block_of(self, matrix: Any) -> B:
        """The block of a matrix: a row for each of its rows."""

    def take(self, block: B, rows: Integers) -> B:
        """The block with these rows only."""

    def finite_rows(self, block: B) -> Any:
        """Which rows have finite entries only."""

    def matrix(self, blocks: Sequence[B]) -> Any:
        """The rows of consecutive ranges as one new array, in the widest of their types."""

    # Passes.

    def collect(self, jobs: Sequence[Callable[[], Any]], finite: list[Any], *, threaded: bool) -> tuple[Array, bool]:
        """Run the jobs of a pass. Their results, stacked in order as a numpy array, and whether all was finite.

        Jobs append to `finite` whether the vectors that they made were finite; the list is emptied.
        """


@dataclass(slots=True)
class Block:
    """k rows over one range of coordinates, by address. `holds` keeps their memory alive.

    With `mixing` the rows are ``mixing`` times those at the addresses, in float64. They do not exist until a kernel
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
        return cls(addresses_of(rows), LIKE[rows.dtype], rows.shape[1], rows)

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


# The zero-length arrays that tell the kernels the type of the rows.
LIKE: "dict[Any, np.ndarray[Any, Any]]" = {
    np.dtype(np.float32): np.empty(0, np.float32),
    np.dtype(np.float64): np.empty(0, np.float64),
}


def addresses_of(matrix: "np.ndarray[Any, Any]") -> Integers:
    """Where the rows of a matrix begin."""
    first: int = matrix.__array_interface__["data"][0]
    return np.arange(len(matrix), dtype=np.intp) * matrix.strides[0] + first


@final
class Numba(Space[Block]):
    """Blocks by address, computed by the numba kernels."""

    by_address = True

    # Lengths.

    def pair_lengths(self, block: Block, powers: Floats) -> Floats:
        single = block.like.itemsize == 4
        if single and block.mixing is None and (powers != 2.0).any():
            direct = np.array([norms.has_kernel(p) for p in powers])
            if direct.all():
                return norms.pair_norms(block.addresses, block.like, block.width, powers)
            if direct.any():
                found = np.empty((len(powers), len(block.addresses), len(block.addresses)))
                found[direct] = norms.pair_norms(block.addresses, block.like, block.width, powers[direct])
                found[~direct] = self.pair_lengths(block, powers[~direct])
                return found
        sums = distances.pair_sums(block.addresses, block.like, block.width, powers, block.mixing)
        for plane, p in zip(sums, powers.tolist(), strict=True):
            if p == 2.0 and single:  # squares of differences of float32 numbers never leave float64
                np.sqrt(plane, out=plane)
            elif p < np.inf:
                plane[:] = self._pair_roots(block, plane, p)
        return sums

    def _pair_roots(self, block: Block, sums: Floats, p: float) -> Floats:
        """Sums of p-th powers to lengths. Those that overflowed or vanished are measured again, row by row."""
        lost = np.triu(~((sums >= _TINY) & (sums < np.inf)), 1).any(axis=1)
        found: Floats = sums ** (1.0 / p)
        if lost.any():
            block = block.plain()
            rows = np.asarray(self.matrix([block]), np.float64)
            for row in np.nonzero(lost)[0]:
                found[row] = found[:, row] = self.point_lengths(block, rows[row], np.array([p]))[0]
        return found

    def point_lengths(self, block: Block, point: Any, powers: Floats) -> Floats:
        block = block.plain()
        rows, point = (block.addresses, block.like, block.width), np.ascontiguousarray(point)
        return np.stack([norms.point_norms(*rows, point, p) for p in powers.tolist()])

    def combination_lengths(self, block: Block, weights: Floats, p: float) -> Floats:
        block = block.plain()
        if p == np.inf:
            return np.asarray(super().combination_lengths(block, weights, p))
        return norms.combination_norms(block.addresses, block.like, block.width, weights, p)

    # Products.

    def gram(self, block: Block, about: int, inverse_scales: Floats) -> Floats:
        block = block.plain()
        return products.gram(block.addresses, block.like, block.width, about, inverse_scales)

    def gram_rows(self, block: Block, about: int, inverse_scales: Floats, which: Integers) -> Floats:
        block = block.plain()
        if block.like.itemsize == 8:
            return np.asarray(super().gram_rows(block, about, inverse_scales, which))
        return products.gram_rows(block.addresses, block.like, block.width, about, inverse_scales, which)

    def point_dots(self, block: Block, point: Any) -> Floats:
        block = block.plain()
        return products.point_dots(block.addresses, block.like, block.width, point)

    def sketch(self, block: Block, start: int, key: int, size: int) -> Floats:
        block = block.plain()
        return sketches.fold(block.addresses, block.like, block.width, start, key, size)

    # Vectors.

    def columns(self, block: Block, statistic: columnwise.Statistic) -> tuple[Any, bool]:
        block = block.plain()
        out = np.empty(block.width, block.like.dtype)
        finite = self._statistic(block, statistic, out)
        return out.astype(np.float64, copy=False), finite

    def columns_into(self, block: Block, statistic: columnwise.Statistic, out: Any) -> bool:
        if not isinstance(out, list) and out.dtype == block.like.dtype:
            # Mixed rows are rounded to the type of the result first: as accurate as rounding last, and twice as fast.
            return self._statistic(block, statistic, out)
        return bool(super().columns_into(block, statistic, out))

    @staticmethod
    def _statistic(block: Block, statistic: columnwise.Statistic, out: Any) -> bool:
        rows = block.addresses, block.like, block.width
        match statistic:
            case columnwise.Median():
                return columns.median(*rows, out, block.mixing)
            case columnwise.Trimmed(trim):
                return columns.trimmed_mean(*rows, trim, out, block.mixing)
            case columnwise.Around(keep, centre):
                return columns.around(*rows, -1 if centre is None else centre, keep, out, block.mixing)
        if block.mixing is not None:
            plain = block.plain()
            wide = np.empty(block.width)
            finite = Numba._statistic(plain, statistic, wide)
            with np.errstate(over="ignore"):
                out[:] = wide
            return finite
        match statistic:
            case columnwise.Sign():
                return columns.sign_vote(*rows, out)
            case columnwise.Deviation(ddof):
                return moments.deviation(*rows, ddof, out)
            case columnwise.Extreme(largest):
                return moments.extreme(*rows, largest, out)
            case columnwise.WeightedMedian(mass):
                return weighted.median(*rows, np.array(mass), out)
            case columnwise.WeightedTrimmed(mass, cut):
                return weighted.trimmed_mean(*rows, np.array(mass), cut, out)
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
        if not isinstance(out, list) and out.dtype in LIKE:
            return self._combined(block, weights, out)
        return bool(super().combine_into(block, weights, out))

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
        # A tile has one type: the rows are copied to float64, next to the new ones.
        out = np.empty((len(block.addresses) + len(vectors), block.width))
        combinations.gather(block.addresses, block.like, block.width, out[: len(block.addresses)])
        for row, vector in zip(out[len(block.addresses) :], vectors, strict=True):
            row[:] = vector
        return Block.of(out)

    def block_of(self, matrix: Any) -> Block:
        return Block.of(matrix)

    def take(self, block: Block, rows: Integers) -> Block:
        if block.mixing is not None:
            return Block(block.addresses, block.like, block.width, block.holds, block.mixing[rows])
        return Block(block.addresses[rows], block.like, block.width, block.holds)

    def finite_rows(self, block: Block) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        block = block.plain()
        return combinations.finite_rows(block.addresses, block.like, block.width)

    def zeros(self, width: int) -> Any:
        return np.zeros(width)

    def vector(self, values: Any) -> Any:
        return np.asarray(values, np.float64)

    def host(self, vector: Any) -> Floats:
        return np.asarray(vector, np.float64)

    def stack(self, parts: Sequence[Any]) -> Any:
        return np.stack(parts)

    def write(self, vector: Any, out: Any) -> None:
        if out.dtype == BFLOAT16:
            out["bfloat16"] = to_bfloat16(vector)
        else:
            with np.errstate(over="ignore"):  # a float64 value beyond the type of the rows is infinite there
                out[:] = vector

    def matrix(self, blocks: Sequence[Block]) -> Any:
        plain, at = [block.plain() for block in blocks], 0
        wide = np.result_type(*(block.like for block in plain))
        out = np.empty((len(plain[0].addresses), sum(block.width for block in plain)), wide)
        for block in plain:
            rows = np.empty((len(out), block.width), block.like.dtype)
            combinations.gather(block.addresses, block.like, block.width, rows)
            out[:, at : at + block.width] = rows
            at += block.width
        return out

    # Passes.

    def collect(self, jobs: Sequence[Callable[[], Any]], finite: list[Any], *, threaded: bool) -> tuple[Array, bool]:
        if len(jobs) == 1:
            found = np.asarray(jobs[0]())[None]
        else:
            found = np.stack(threads.over(jobs) if threaded else [job() for job in jobs])
        sound = all(finite)
        finite.clear()
        return found, sound


NUMBA = Numba()  # it keeps no state


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
