"""Sketches of rows: a few numbers for each row whose inner products are, nearly, those of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import helper, kernel, run_at

__all__ = ["fold", "signs_of"]

Floats = NDArray[np.float64]

# The constants of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@helper
def _scrambled(number: Any) -> Any:
    number = (number ^ (number >> np.uint64(30))) * _FIRST
    number = (number ^ (number >> np.uint64(27))) * _SECOND
    return number ^ (number >> np.uint64(31))


@kernel
def signs_of(key: Any, chunk: int, signs: Any) -> int:
    """Write the random signs of one chunk of coordinates; returns the bucket of its first coordinate."""
    size = signs.size
    state = _scrambled(key + _STEP * np.uint64(chunk + 1))
    word = np.uint64(0)
    for c in range(size):
        if c % 64 == 0:
            word = _scrambled(state + _STEP * np.uint64(c // 64 + 1))
        signs[c] = 1.0 - 2.0 * np.float64((word >> np.uint64(c % 64)) & np.uint64(1))
    return int(_scrambled(state) % np.uint64(size))


@kernel
def _fold(addresses: Any, like: Any, width: int, start: int, key: Any, out: Any) -> None:
    size = out.shape[1]
    signs = np.empty(size)
    at = 0
    while at < width:
        chunk = (start + at) // size
        first = start + at - chunk * size
        count = min(size - first, width - at)
        turned = signs_of(key, chunk, signs) + first
        before = min(max(size - turned, 0), count)  # coordinates that come before the last bucket
        for j in range(addresses.size):
            row = run_at(addresses[j], like, at, count)
            for c in range(before):
                out[j, turned + c] += signs[first + c] * row[c]
            for c in range(before, count):
                out[j, turned + c - size] += signs[first + c] * row[c]
        at += count


def fold(addresses: Any, like: Any, width: int, start: int, key: int, size: int) -> Floats:
    """Add each coordinate, with a random sign, to one of `size` buckets, for every row: (k, size) in float64.

    Coordinates are counted from `start`. Each chunk of `size` coordinates is added to the buckets in order, from a
    random one on: neighbours in memory stay neighbours, so that a row is read at the speed of a sum.
    """
    out = np.zeros((addresses.size, size))
    _fold(addresses, like, width, start, np.uint64(key), out)
    return out
