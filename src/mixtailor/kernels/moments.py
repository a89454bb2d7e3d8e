"""Columnwise statistics that need no order: standard deviation, smallest and largest value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import kernel, run_at

__all__ = ["deviation", "extreme"]

RUN = 256

Addresses = NDArray[np.intp]


@kernel
def deviation(addresses: Addresses, like: Any, width: int, ddof: int, out: Any) -> bool:
    """Standard deviation of every column, over k - ddof; whether all entries are finite.

    About the mean of the column, in two passes over a run that the cache holds: squares lose nothing to cancellation.
    """
    finite = True
    rows = addresses.size
    mean = np.empty(RUN)
    total = np.empty(RUN)
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        mean[:] = 0.0
        total[:] = 0.0
        for j in range(rows):
            row = run_at(addresses[j], like, start, length)
            for c in range(length):
                mean[c] += np.float64(row[c]) / rows
        for j in range(rows):
            row = run_at(addresses[j], like, start, length)
            for c in range(length):
                away = np.float64(row[c]) - mean[c]
                total[c] += away * away
                finite = finite and np.isfinite(row[c])
        for c in range(length):
            out[start + c] = np.sqrt(total[c] / (rows - ddof))
    return finite


@kernel
def extreme(addresses: Addresses, like: Any, width: int, largest: bool, out: Any) -> bool:
    """The smallest or the largest value of every column; whether all entries are finite."""
    finite = True
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        for j in range(addresses.size):
            row = run_at(addresses[j], like, start, length)
            for c in range(length):
                if j == 0 or (row[c] > out[start + c]) == largest:
                    out[start + c] = row[c]
                finite = finite and np.isfinite(row[c])
    return finite
