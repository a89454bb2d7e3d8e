"""Tiles: a run of every row as float64, side by side, where the first- or second-level cache holds it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from mixtailor.kernels._numba import exact_kernel, run_at
from mixtailor.kernels.lanes import DOUBLES, Code, emitted

__all__ = ["RUN", "fill", "widen"]

RUN = 256  # coordinates in a tile: twelve rows of float64 fit the first-level cache


@emitted(types.float64)
def widen(code: Code, source: Any, target: Any, vectors: Any, like: Any) -> Any:
    """Copy `vectors` registers of numbers as float64. Returns 0, or NaN where one of them is not finite."""
    fault = code.variable(code.constant(0.0))
    size = 4 if code.is_single(like) else 8
    with code.loop(vectors) as step:
        x = code.load(code.offset(source, step, size * DOUBLES), like).widened()
        code.store(x, code.offset(target, step, 8 * DOUBLES))
        fault.set(x.times_plus(code.constant(0.0), fault.get()))  # 0 x infinity and 0 x NaN are NaN, and stay
    return fault.get().total()


@exact_kernel
def fill(addresses: NDArray[np.intp], like: Any, start: int, length: int, tile: Any, faults: Any) -> None:
    """Load columns ``start`` to ``start + length`` of all rows, zeros up to the next whole register."""
    vectors = length // DOUBLES
    for j in range(addresses.size):
        fault = widen(addresses[j] + start * like.itemsize, tile[j].ctypes.data, vectors, like)
        if vectors * DOUBLES < length:
            row = run_at(addresses[j], like, start, length)
            for c in range(vectors * DOUBLES, (vectors + 1) * DOUBLES):
                tile[j, c] = row[c] if c < length else 0.0
                fault += 0.0 * tile[j, c]
        faults[j] += fault
