"""The sums of `blocks` by their addresses.

Each term has code of its own, which takes a tenth of the time to compile that the kernel around it does. So each is
compiled by itself, and the kernel, once for all terms, is given its address.
"""

from __future__ import annotations

import functools
from typing import Any

from mixtailor.kernels._numba import address_of
from mixtailor.kernels.blocks import emit_pair, emit_pairs, emit_point
from mixtailor.kernels.lanes import Code, Data, Double, Word, emitted

__all__ = ["call_pair", "call_pairs", "call_point", "pair_at", "pairs_at", "point_at"]


@functools.cache
def pairs_at(term: int, single: int) -> int:
    """The address of `pairs_of_rows` for float32 or for float64 rows, for `call_pairs`."""

    def pairs(tile: Any, pitch: Any, vectors: Any, sums: Any, rows: Any, p: Any) -> None:
        _pairs_at(tile, pitch, vectors, sums, rows, p, single, term)

    return address_of(pairs, "void(intp, intp, intp, intp, intp, float64)", term, single)


@functools.cache
def pair_at(term: int, single: int) -> int:
    """The address of `one_pair`, for float32 or for float64 rows, for `call_pair`."""

    def pair(first: Any, second: Any, vectors: Any, sums: Any, scale: Any, p: Any) -> None:
        _pair_at(first, second, vectors, sums, scale, p, single, term)

    return address_of(pair, "void(intp, intp, intp, intp, float64, float64)", term, single)


@functools.cache
def point_at(term: int, single: int) -> int:
    """The address of `emit_point` for rows at addresses, for float32 or for float64 rows, for `call_point`."""

    def point(places: Any, vectors: Any, centre: Any, sums: Any, rows: Any, p: Any) -> None:
        _point_at(places, vectors, centre, sums, rows, p, single, term)

    return address_of(point, "void(intp, intp, intp, intp, intp, float64)", term, single)


@emitted()
def _pairs_at(
    code: Code, tile: Word, pitch: Word, vectors: Word, sums: Word, rows: Word, p: Double, single: int, term: int
) -> None:
    emit_pairs(code, tile, pitch, vectors, sums, rows, p, code.single_type if single else code.double_type, term)


@emitted()
def _pair_at(
    code: Code, first: Word, second: Word, vectors: Word, sums: Word, scale: Double, p: Double, single: int, term: int
) -> None:
    emit_pair(code, first, second, vectors, sums, scale, p, code.single_type if single else code.double_type, term)


@emitted()
def _point_at(
    code: Code, places: Word, vectors: Word, point: Word, sums: Word, rows: Word, p: Double, single: int, term: int
) -> None:
    def row(i: Any) -> Any:
        return code.word(code.offset(places, i, 8))

    like = code.single_type if single else code.double_type
    emit_point(code, rows, row, vectors, point, sums, p, like, term)


@emitted()
def call_pairs(
    code: Code, function: Word, tile: Data, pitch: Word, vectors: Word, sums: Data, rows: Word, p: Double
) -> None:
    """`pairs_of_rows` by its address."""
    code.call(function, tile, pitch, vectors, sums, rows, p)


@emitted()
def call_pair(
    code: Code, function: Word, first: Word, second: Word, vectors: Word, sums: Data, scale: Double, p: Double
) -> None:
    """`one_pair` by its address."""
    code.call(function, first, second, vectors, sums, scale, p)


@emitted()
def call_point(
    code: Code, function: Word, places: Data, vectors: Word, point: Data, sums: Data, rows: Word, p: Double
) -> None:
    """The sums of every row at an address with a point, by the address of `point_at`."""
    code.call(function, places, vectors, point, sums, rows, p)
