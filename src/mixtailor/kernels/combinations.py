"""Weighted sums of rows, copies of rows, and which rows are finite."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import kernel, run_at

__all__ = ["combine", "finite_rows", "gather"]

RUN = 2048  # coordinates in a tile: the float64 sum of a run stays in the first-level cache


@kernel
def combine(addresses: NDArray[np.intp], like: Any, width: int, weights: NDArray[np.float64], out: Any) -> bool:
    """``out[r] = sum_j weights[r, j] x_j``, in float64; rows of weight zero are not looked at.

    Returns whether every entry of `out` is finite.
    """
    rows = addresses.size
    total = np.empty(RUN, np.float64)
    finite = True
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        for r in range(weights.shape[0]):
            total[:] = 0.0
            for j in range(rows):
                weight = weights[r, j]
                if weight != 0.0:
                    row = run_at(addresses[j], like, start, length)
                    for c in range(length):
                        total[c] += weight * row[c]
            answer = out[r, start : start + length]
            faults = 0
            for c in range(length):
                answer[c] = total[c]
                faults += not np.isfinite(answer[c])
            finite = finite and faults == 0
    return finite


@kernel
def gather(addresses: NDArray[np.intp], like: Any, width: int, out: Any) -> None:
    """Copy the rows into ``out``, (k, width), converting to its dtype."""
    for j in range(addresses.size):
        row = run_at(addresses[j], like, 0, width)
        for c in range(width):
            out[j, c] = row[c]


@kernel
def finite_rows(addresses: NDArray[np.intp], like: Any, width: int) -> NDArray[np.bool_]:
    """Whether each row's run is finite."""
    answer = np.empty(addresses.size, np.bool_)
    for j in range(addresses.size):
        row = run_at(addresses[j], like, 0, width)
        faults = 0
        for c in range(width):
            faults += not np.isfinite(row[c])
        answer[j] = faults == 0
    return answer
