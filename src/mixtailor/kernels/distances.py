"""Sums of powers of differences: between all pairs of rows, and between rows and a point."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import kernel, run_at

__all__ = ["combination_sums", "pair_maxima", "pair_sums", "pair_sums_scaled", "point_sums", "point_sums_scaled"]

RUN = 512

Floats = NDArray[np.float64]
Addresses = NDArray[np.intp]


@kernel
def _load(addresses: Addresses, like: Any, start: int, length: int, tile: Floats) -> None:
    for j in range(addresses.size):
        row = run_at(addresses[j], like, start, length)
        target = tile[j]
        for c in range(length):
            target[c] = row[c]


@kernel
def _sum(a: Floats, b: Floats, length: int, p: float, before: float) -> float:
    """Sum of ``|a - b|^p``, or their maximum for an infinite p, on top of `before`."""
    total = 0.0
    if p == np.inf:
        largest = before
        for c in range(length):
            difference = abs(a[c] - b[c])
            if difference > largest or difference != difference:
                largest = difference
            if largest != largest:
                break
        return largest
    if p == 1.0:
        for c in range(length):
            total += abs(a[c] - b[c])
    elif p == 2.0:
        for c in range(length):
            difference = a[c] - b[c]
            total += difference * difference
    else:
        for c in range(length):
            total += abs(a[c] - b[c]) ** p
    return before + total


@kernel
def pair_sums(addresses: Addresses, like: Any, width: int, powers: Floats) -> Floats:
    """``sum |x_i - x_j|^p`` for every pair and every p, (P, k, k); an infinite p gives the maximum.

    The sums are raw: they overflow or underflow where the powers do. A faulty row has NaN on its diagonal.
    """
    rows = addresses.size
    answer = np.zeros((powers.size, rows, rows))
    tile = np.empty((rows, RUN))
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        _load(addresses, like, start, length, tile)
        for q in range(powers.size):
            for i in range(rows):
                for j in range(i, rows):
                    answer[q, i, j] = _sum(tile[i], tile[j], length, powers[q], answer[q, i, j])
    for q in range(powers.size):
        for i in range(rows):
            for j in range(i):
                answer[q, i, j] = answer[q, j, i]
    return answer


@kernel
def pair_sums_scaled(
    addresses: Addresses,
    like: Any,
    width: int,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    p: float,
    scales: Floats,
) -> Floats:
    """``sum (|x_i - x_j| / scale)^p`` for the listed pairs: for those whose raw sums left the range of float64."""
    answer = np.zeros(first.size)
    tile = np.empty((3, RUN))
    tile[2] = 0.0
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        for pair in range(first.size):
            a = run_at(addresses[first[pair]], like, start, length)
            b = run_at(addresses[second[pair]], like, start, length)
            for c in range(length):
                tile[0, c] = (np.float64(a[c]) - np.float64(b[c])) / scales[pair]
            answer[pair] = _sum(tile[0], tile[2], length, p, answer[pair])
    return answer


@kernel
def pair_maxima(
    addresses: Addresses, like: Any, width: int, first: NDArray[np.intp], second: NDArray[np.intp]
) -> Floats:
    """``max |x_i - x_j|`` for the listed pairs."""
    answer = np.zeros(first.size)
    tile = np.empty((2, RUN))
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        for pair in range(first.size):
            a = run_at(addresses[first[pair]], like, start, length)
            b = run_at(addresses[second[pair]], like, start, length)
            for c in range(length):
                tile[0, c] = a[c]
                tile[1, c] = b[c]
            answer[pair] = _sum(tile[0], tile[1], length, np.inf, answer[pair])
    return answer


@kernel
def point_sums(addresses: Addresses, like: Any, width: int, point: Floats, powers: Floats) -> Floats:
    """``sum |x_i - point|^p`` for every row and every p, (P, k)."""
    rows = addresses.size
    answer = np.zeros((powers.size, rows))
    tile = np.empty((rows, RUN))
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        _load(addresses, like, start, length, tile)
        part = point[start : start + length]
        for q in range(powers.size):
            for i in range(rows):
                answer[q, i] = _sum(tile[i], part, length, powers[q], answer[q, i])
    return answer


@kernel
def point_sums_scaled(addresses: Addresses, like: Any, width: int, point: Floats, p: float, scales: Floats) -> Floats:
    """``sum (|x_i - point| / scale_i)^p`` for every row."""
    rows = addresses.size
    answer = np.zeros(rows)
    tile = np.empty((2, RUN))
    tile[1] = 0.0
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        for i in range(rows):
            row = run_at(addresses[i], like, start, length)
            for c in range(length):
                tile[0, c] = (row[c] - point[start + c]) / scales[i]
            answer[i] = _sum(tile[0], tile[1], length, p, answer[i])
    return answer


@kernel
def combination_sums(addresses: Addresses, like: Any, width: int, weights: Floats, p: float) -> Floats:
    """``sum |x_i - sum_j weights_j x_j|^p`` for every row, the combination formed tile by tile.

    Rows of weight zero take no part in the combination: they are skipped, not multiplied.
    """
    rows = addresses.size
    answer = np.zeros(rows)
    tile = np.empty((rows, RUN))
    point = np.empty(RUN)
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        _load(addresses, like, start, length, tile)
        point[:] = 0.0
        for j in range(rows):
            weight = weights[j]
            if weight != 0.0:
                for c in range(length):
                    point[c] += weight * tile[j, c]
        for i in range(rows):
            answer[i] = _sum(tile[i], point, length, p, answer[i])
    return answer
