"""Inner products between rows, and of rows with a point, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import copy, kernel
from mixtailor.kernels.blocks import PRODUCT, pairs_of_rows, rows_and_point, shift_and_scale
from mixtailor.kernels.tiles import empty_tile, fill, vectors_of

__all__ = ["gram", "gram_rows", "point_dots"]


@kernel
def _centred(
    addresses: Any, like: Any, start: int, length: int, about: int, inverse_scales: Any, centre: Any, tile: Any
) -> int:
    """Fill the tile with ``(x_i - x_about) * inverse_scales[i]`` over a run; how many registers it fills."""
    fill(addresses, like, start, length, tile)
    vectors = int(vectors_of(length))
    if about >= 0:
        copy(tile[about], centre, len(centre))
    shift_and_scale(tile, tile.strides[0], vectors, centre, inverse_scales, addresses.size)
    return vectors


@kernel
def gram(
    addresses: NDArray[np.intp], like: Any, width: int, about: int, inverse_scales: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Inner products of ``(x_i - x_about) * inverse_scales[i]``; ``about = -1`` is the origin.

    The differences are formed in float64 before anything is multiplied: a row near the others keeps its digits.
    """
    rows = addresses.size
    answer = np.zeros((rows, rows))
    tile = empty_tile(rows)
    run = tile.shape[1] - 8
    centre = np.zeros(run)
    for start in range(0, width, run):
        vectors = _centred(addresses, like, start, min(run, width - start), about, inverse_scales, centre, tile)
        pairs_of_rows(tile, tile.strides[0], vectors, answer, rows, 0.0, tile, PRODUCT)
    for i in range(rows):
        for j in range(i):
            answer[i, j] = answer[j, i]
    return answer


@kernel
def gram_rows(
    addresses: NDArray[np.intp],
    like: Any,
    width: int,
    about: int,
    inverse_scales: NDArray[np.float64],
    which: NDArray[np.intp],
) -> NDArray[np.float64]:
    """The rows `which` of `gram`, to all digits that it has: for a few of them, little more than a reading."""
    rows = addresses.size
    answer = np.zeros((which.size, rows))
    tile = empty_tile(rows)
    run = tile.shape[1] - 8
    centre = np.zeros(run)
    for start in range(0, width, run):
        vectors = _centred(addresses, like, start, min(run, width - start), about, inverse_scales, centre, tile)
        for k in range(which.size):
            rows_and_point(tile, tile.strides[0], vectors, tile[which[k]], answer[k], rows, 0.0, PRODUCT)
    return answer


@kernel
def point_dots(addresses: NDArray[np.intp], like: Any, width: int, point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inner product of each row with `point`."""
    rows = addresses.size
    answer = np.zeros(rows)
    tile = empty_tile(rows)
    run = tile.shape[1] - 8
    part = np.empty(run)
    for start in range(0, width, run):
        length = min(run, width - start)
        fill(addresses, like, start, length, tile)
        copy(point[start:], part, length)
        part[length:] = 0.0
        rows_and_point(tile, tile.strides[0], vectors_of(length), part, answer, rows, 0.0, PRODUCT)
    return answer
