"""Inner products between rows, and of rows with a point, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import copy, helper, kernel, run_at
from mixtailor.kernels.blocks import PRODUCT, dots_about, pairs_of_rows, rows_and_point, shift_and_scale
from mixtailor.kernels.distances import edges, empty_tile, run_of
from mixtailor.kernels.lanes import DOUBLES
from mixtailor.kernels.tiles import fill, places_of, vectors_of

__all__ = ["gram", "gram_rows", "point_dots"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@helper
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
def _gram(addresses: Any, like: Any, width: int, about: int, inverse_scales: Any, tile: Any, answer: Any) -> None:
    rows = addresses.size
    run = tile.shape[1] - 8
    centre = np.zeros(run)
    for start in range(0, width, run):
        vectors = _centred(addresses, like, start, min(run, width - start), about, inverse_scales, centre, tile)
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
def _gram_rows(
    addresses: Any, like: Any, width: int, about: int, inverse_scales: Any, which: Any, tile: Any, answer: Any
) -> None:
    run = tile.shape[1] - 8
    centre = np.zeros(run)
    for start in range(0, width, run):
        vectors = _centred(addresses, like, start, min(run, width - start), about, inverse_scales, centre, tile)
        for k in range(which.size):
            rows_and_point(tile, tile.strides[0], vectors, tile[which[k]], answer[k], addresses.size, 0.0, PRODUCT)


@kernel
def _single_gram_rows(
    addresses: Any, like: Any, width: int, about: int, which: Any, run: int, edge: Any, answer: Any
) -> None:
    """For float32 rows, whose products float64 holds whatever their size, so that they need no scales, nor a tile."""
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


def gram_rows(addresses: Indices, like: Any, width: int, about: int, inverse_scales: Floats, which: Indices) -> Floats:
    """The rows `which` of `gram`, to all digits that it has: for a few of them, little more than a reading."""
    answer = np.zeros((which.size, addresses.size))
    if like.itemsize == 4 and about >= 0:
        run = run_of(addresses.size)
        edge = edges(addresses.size, width, run, like.dtype)
        _single_gram_rows(addresses, like, width, about, which, run, edge, answer)
        return answer * inverse_scales[which][:, None] * inverse_scales
    _gram_rows(addresses, like, width, about, inverse_scales, which, empty_tile(addresses.size), answer)
    return answer


@kernel
def _point_dots(addresses: Any, like: Any, width: int, point: Any, tile: Any, answer: Any) -> None:
    rows = addresses.size
    run = tile.shape[1] - 8
    part = np.zeros(run)
    for start in range(0, width, run):
        length = min(run, width - start)
        fill(addresses, like, start, length, tile)
        copy(point[start:], part, length)
        for c in range(length, run):
            part[c] = 0.0
        rows_and_point(tile, tile.strides[0], vectors_of(length), part, answer, rows, 0.0, PRODUCT)


def point_dots(addresses: Indices, like: Any, width: int, point: Floats) -> Floats:
    """Inner product of each row with `point`."""
    answer = np.zeros(addresses.size)
    _point_dots(addresses, like, width, point, empty_tile(addresses.size), answer)
    return answer
