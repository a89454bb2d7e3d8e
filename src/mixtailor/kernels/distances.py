"""Sums of powers of differences: between all pairs of rows, and between rows and a point.

All sums are float64 sums of float64 powers of float64 differences: nearly equal rows keep their digits, and the
difference of two float32 numbers never overflows. The powers may: sums are raw, and a caller that finds one infinite or
vanishing measures that pair again, by `norms`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import copy, special_kernel
from mixtailor.kernels.addresses import call_pairs, pairs_at
from mixtailor.kernels.blocks import ANY, EVERY, MAXIMUM, rows_and_point
from mixtailor.kernels.combinations import finite_rows, mix_run
from mixtailor.kernels.lanes import REGISTER
from mixtailor.kernels.tiles import PER, fill, vectors_of

__all__ = ["pair_sums", "sums_with_point"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

LARGEST_WHOLE = 64  # whole powers beyond are taken by logarithms: each has a kernel of its own
TOGETHER = 16  # powers up to here can be had all at once
PASS = 8192  # coordinates that one power after the other sees while they are in the second-level cache


def aligned(rows: int, columns: int, dtype: Any) -> Any:
    """An array whose rows, where they are whole registers long, begin at a register's boundary.

    A register that is loaded across two cache lines takes two loads. Made outside of the kernels, which then need not
    be compiled to do it.
    """
    memory = np.empty(rows * columns + REGISTER // 4, dtype)
    skip = -memory.__array_interface__["data"][0] % REGISTER // memory.itemsize
    return memory[skip : skip + rows * columns].reshape(rows, columns)


def run_of(rows: int) -> int:
    """How many columns of float64 make a tile."""
    run = 256  # a dozen rows stay in the first-level cache of 32 KB
    if rows > 16:
        run = 1024
        while run > 64 and run * rows > 65536:
            run //= 2
    return run


def empty_tile(rows: int) -> NDArray[np.float64]:
    """Room for a tile: columns in whole registers, and a gap that keeps rows off the same cache sets."""
    tile: NDArray[np.float64] = aligned(rows, run_of(rows) + 8, np.float64)
    return tile


def edges(rows: int, width: int, run: int, dtype: Any) -> Any:
    """Room for the ends of the rows that `places_of` copies, with zeros up to a whole register."""
    return np.zeros((rows, width % run // PER * PER + PER), dtype)


def term_of(p: float) -> int:
    """The constant that stands for |x - y|^p in `blocks`."""
    if p == np.inf:
        return MAXIMUM
    return int(4 * p) if 4 * p == int(4 * p) and p <= LARGEST_WHOLE else ANY


_UNMIXED = np.zeros((0, 0))


@functools.cache
def _pairs(mixed: int) -> Callable[..., bool]:
    @special_kernel(mixed)
    def sums_of_pairs(
        sum_pairs: Any, addresses: Any, like: Any, width: Any, p: Any, mixing: Any, tile: Any, answer: Any
    ) -> Any:
        """What is summed is given by the address of a function, so that this is compiled once for all powers."""
        planes, rows = answer.shape[:2]
        run = tile.shape[1] - 8
        finite = True
        for start in range(0, width, run):
            length = min(run, width - start)
            if mixed:
                for i in range(rows):
                    for c in range(length, run):
                        tile[i, c] = 0.0
                finite &= mix_run(addresses, like, start, length, mixing, tile)
            else:
                finite &= fill(addresses, like, start, length, tile)
            call_pairs(sum_pairs, tile, tile.strides[0], vectors_of(length), answer, rows, p)
        for plane in range(planes):
            for i in range(rows):
                for j in range(i):
                    answer[plane, i, j] = answer[plane, j, i]
        return finite

    return sums_of_pairs


@functools.cache
def _to_point(term: int) -> Callable[..., None]:
    @special_kernel(term)
    def sums_to_point(addresses: Any, like: Any, width: Any, point: Any, tile: Any, answer: Any) -> None:
        rows = addresses.size
        run = tile.shape[1] - 8
        part = np.zeros(run)
        for start in range(0, width, run):
            length = min(run, width - start)
            fill(addresses, like, start, length, tile)
            copy(point[start:], part, length)
            for c in range(length, run):
                part[c] = 0.0
            rows_and_point(tile, tile.strides[0], vectors_of(length), part, answer, rows, 0.0, term)

    return sums_to_point


def sums_with_point(addresses: Indices, like: NDArray[Any], width: int, point: Floats, term: int) -> Floats:
    """What a term of `blocks` without a power, `MAXIMUM` or `PRODUCT`, gives for every row and a point."""
    answer = np.zeros(addresses.size)
    _to_point(term)(addresses, like, width, point, empty_tile(addresses.size), answer)
    return answer


def pair_sums(
    addresses: Indices, like: NDArray[Any], width: int, powers: Floats, mixing: Floats | None = None
) -> Floats:
    """``sum |x_i - x_j|^p`` for every pair and every p, (P, k, k); an infinite p gives the maximum.

    With `mixing`, the pairs are of the rows ``mixing @ x``, which exist for a moment only.

    The sums are raw: they overflow or vanish where the powers do. Sums with a row that is not finite are not finite,
    and neither is its diagonal, which is zero for all others.
    """
    weights = _UNMIXED if mixing is None else np.ascontiguousarray(mixing, np.float64)
    rows = addresses.size if mixing is None else len(mixing)

    def ask(term: int, p: float, start: int, length: int) -> Floats:
        places = addresses if start == 0 else addresses + start * like.itemsize
        answer = np.zeros((max(1, term - EVERY), rows, rows))
        if not _pairs(int(mixing is not None))(
            pairs_at(term, 0), places, like, length, p, weights, empty_tile(rows), answer
        ):
            lost = ~finite_rows(places, like, length)
            if mixing is not None:
                lost = (weights[:, lost] != 0.0).any(axis=1)
            answer[:, lost, lost] = np.nan
        return answer

    if powers.size == 1:
        return ask(term_of(float(powers[0])), float(powers[0]), 0, width)
    if powers.size > 3 and powers.max() <= TOGETHER and (powers == np.floor(powers)).all():
        return ask(EVERY + int(powers.max()), 0.0, 0, width)[powers.astype(np.intp) - 1]
    total = np.zeros((powers.size, rows, rows))
    for start in range(0, width, PASS):
        for plane, p in zip(total, powers.tolist(), strict=True):
            (part,) = ask(term_of(p), p, start, min(PASS, width - start))
            (np.maximum if p == np.inf else np.add)(plane, part, out=plane)
    return total
