"""`Space`: the functions that compute on blocks. A block is all rows of a storage over one range of coordinates.

A storage says where its rows are; its space computes with them. `mixtailor.kernels.space` has these functions for rows
in memory, and `mixtailor.kernels.tensors` for torch tensors on a device.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from mixtailor._types import Array, Floats, Integers
from mixtailor.kernels.columnwise import Statistic

__all__ = ["Space"]

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

    def columns(self, block: B, statistic: Statistic) -> tuple[Any, Any]:
        """The statistic of each column in float64, and whether all entries were finite."""

    def columns_into(self, block: B, statistic: Statistic, out: Any) -> Any:
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
