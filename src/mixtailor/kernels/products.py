"""Inner products between rows, and of rows with a point, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import copy, kernel, run_at
from mixtailor.kernels.blocks import PRODUCT, dots_about, pairs_of_rows, shift_and_scale
from mixtailor.kernels.distances import edges, empty_tile, run_of, sums_with_point
from mixtailor.kernels.lanes import DOUBLES
from mixtailor.kernels.tiles import fill, places_of, vectors_of

__all__ = ["gram", "gram_rows", "point_dots"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@kernel
def _gram(addresses: Any, like: Any, width: int, about: int, inverse_scales: Any, tile: Any, answer: Any) -> None:
    rows = addresses.size
    run = tile.shape[1] - 8
    centre = np.zeros(run)
    for start in range(0, width, run):
        length = min(run, width - start)
        vectors = vectors_of(length)
        fill(addresses, like, start, length, tile)
        if about >= 0:
            copy(tile[about], centre, run)
        shift_and_scale(tile, tile.strides[0], vectors, centre, inverse_scales, rows)
        pairs_of_rows(tile, tile.strides[0], vectors, answer, rows, 0.0, tile, PRODUCT)
    for i in range(rows):
        for j in range(i):
            answer[i, j] = answer[j, i]


def gram(addresses: Indices, like: Any, width: int, about: int, inverse_scales: Floats) -> Floats:
    """Inner products of ``(x_i - x_about) * inverse_scales[i]``; ``about = -1`` is the origin.

    The differences are formed in float64 before anything is multiplied: a row near the others keeps its digits.
    """
    answer = np.zeros((addresses.size, addresses.size))
    _gram(addresses, like, width, about, inverse_scales, empty_tile(addresses.size), answer)
    return answer


@kernel
def _gram_rows(addresses: Any, like: Any, width: int, about: int, which: Any, run: int, edge: Any, answer: Any) -> None:
    rows = addresses.size
    places = np.empty(rows, np.intp)
    centre, point = np.zeros(run), np.zeros(run)
    for start in range(0, width, run):
        length = min(run, width - start)
        vectors = vectors_of(length)
        places_of(addresses, like, start, length, edge, places)
        copy(run_at(places[about], like, 0, vectors * DOUBLES), centre, vectors * DOUBLES)
        for k in range(which.size):
            row = run_at(places[which[k]], like, 0, vectors * DOUBLES)
            for c in range(vectors * DOUBLES):
                point[c] = row[c] - centre[c]
            dots_about(places, vectors, centre, point, answer[k], rows, like)


def gram_rows(
    addresses: Indices, like: NDArray[np.float32], width: int, about: int, inverse_scales: Floats, which: Indices
) -> Floats:
    """The rows `which` of `gram` about a row, to all digits that it has: for a few, little more than a reading.

    For float32 rows, whose products float64 holds whatever their size, so that they need no scales, nor a tile.
    """
    answer, run = np.zeros((which.size, addresses.size)), run_of(addresses.size)
    edge = edges(addresses.size, width, run, like.dtype)
    _gram_rows(addresses, like, width, about, which, run, edge, answer)
    return answer * inverse_scales[which][:, None] * inverse_scales


def point_dots(addresses: Indices, like: Any, width: int, point: Floats) -> Floats:
    """Inner product of each row with `point`."""
    return sums_with_point(addresses, like, width, point, PRODUCT)
