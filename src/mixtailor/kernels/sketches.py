"""Sketches of rows: a few numbers for each row whose inner products are, nearly, those of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import helper, kernel, run_at
from mixtailor.kernels.lanes import DOUBLES, Code, Element, Word, emitted

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


@emitted()
def _add_signed(code: Code, signs: Word, row: Word, target: Word, vectors: Word, like: Element) -> None:
    """``target += signs * row``, in float64."""
    with code.loop(vectors) as step:
        here = code.offset(target, step, 8 * DOUBLES)
        x = code.load(code.offset(row, step, code.size(like) * DOUBLES), like).widened()
        sign = code.load(code.offset(signs, step, 8 * DOUBLES), code.double_type)
        code.store(x.times_plus(sign, code.load(here, code.double_type)), here)


@kernel
def _fold(addresses: Any, like: Any, width: int, start: int, key: Any, signs: Any, out: Any) -> None:
    size = out.shape[1]
    at = 0
    while at < width:
        chunk = (start + at) // size
        first = start + at - chunk * size
        count = min(size - first, width - at)
        bucket = signs_of(key, chunk, signs) + first
        done = 0
        while done < count:  # up to the last bucket, and from the first one on
            if bucket >= size:
                bucket -= size
            part = min(count - done, size - bucket)
            vectors = part // DOUBLES
            for j in range(addresses.size):
                row, target = run_at(addresses[j], like, at + done, part), out[j, bucket:]
                run = signs[first + done :]
                _add_signed(run.ctypes.data, row.ctypes.data, target.ctypes.data, vectors, like)
                for c in range(vectors * DOUBLES, part):
                    target[c] += run[c] * row[c]
            done += part
            bucket += part
        at += count


def fold(addresses: Any, like: Any, width: int, start: int, key: int, size: int) -> Floats:
    """Add each coordinate, with a random sign, to one of `size` buckets, for every row: (k, size) in float64.

    Coordinates are counted from `start`. Each chunk of `size` coordinates is added to the buckets in order, from a
    random one on: neighbours in memory stay neighbours, so that a row is read at the speed of a sum.
    """
    out = np.zeros((addresses.size, size))
    _fold(addresses, like, width, start, np.uint64(key), np.empty(size), out)
    return out
