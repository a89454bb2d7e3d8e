"""Columnwise statistics: median, trimmed mean, mean around a centre, vote of the signs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import exact_kernel, run_at

__all__ = ["around", "median", "sign_vote", "trimmed_mean"]

RUN = 256

Addresses = NDArray[np.intp]


@exact_kernel
def _sorted_tile(addresses: Addresses, like: Any, start: int, length: int, tile: Any) -> bool:
    """Columns as the rows of `tile`, each sorted; whether all entries are finite."""
    finite = True
    for j in range(addresses.size):
        row = run_at(addresses[j], like, start, length)
        for c in range(length):
            tile[c, j] = row[c]
            finite = finite and np.isfinite(row[c])
    for c in range(length):
        tile[c] = np.sort(tile[c])
    return finite


@exact_kernel
def _mean(values: Any) -> float:
    total = 0.0
    for value in values:
        total += np.float64(value)
    if np.isfinite(total):
        return total / values.size
    total = 0.0
    for value in values:
        total += np.float64(value) / values.size
    return min(max(total, np.float64(values[0])), np.float64(values[-1]))  # rounding must not leave the range


@exact_kernel
def _middle(column: Any) -> float:
    half = column.size // 2
    return _mean(column[column.size - half - 1 : half + 1])


@exact_kernel
def median(addresses: Addresses, like: Any, width: int, out: Any) -> bool:
    """Median of every column, for even k the mean of the two middle values; whether all entries are finite."""
    finite = True
    tile = np.empty((RUN, addresses.size), like.dtype)
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        finite = _sorted_tile(addresses, like, start, length, tile) and finite
        for c in range(length):
            out[start + c] = _middle(tile[c])
    return finite


@exact_kernel
def trimmed_mean(addresses: Addresses, like: Any, width: int, trim: int, out: Any) -> bool:
    """Mean of every column without its `trim` smallest and largest values; whether all entries are finite."""
    finite = True
    rows = addresses.size
    tile = np.empty((RUN, rows), like.dtype)
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        finite = _sorted_tile(addresses, like, start, length, tile) and finite
        for c in range(length):
            out[start + c] = _mean(tile[c, trim : rows - trim])
    return finite


@exact_kernel
def around(addresses: Addresses, like: Any, width: int, trim: int, keep: int, out: Any) -> bool:
    """Mean of the `keep` values of every column nearest to its centre; whether all entries are finite.

    The centre is the median for a negative `trim`, else the trimmed mean. The nearest values are neighbours in the
    sorted column, so the window moves up as long as the value that enters is nearer than the one that leaves.
    """
    finite = True
    rows = addresses.size
    tile = np.empty((RUN, rows), like.dtype)
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        finite = _sorted_tile(addresses, like, start, length, tile) and finite
        for c in range(length):
            column = tile[c]
            centre = _middle(column) if trim < 0 else _mean(column[trim : rows - trim])
            low = 0
            while low + keep < rows and column[low + keep] - centre < centre - column[low]:
                low += 1
            out[start + c] = _mean(column[low : low + keep])
    return finite


@exact_kernel
def sign_vote(addresses: Addresses, like: Any, width: int, out: Any) -> bool:
    """Sign of the sum of the signs of every column; whether all entries are finite."""
    finite = True
    for c in range(width):
        votes = 0
        for j in range(addresses.size):
            value = run_at(addresses[j], like, c, 1)[0]
            votes += int(value > 0) - int(value < 0)
            finite = finite and np.isfinite(value)
        out[c] = int(votes > 0) - int(votes < 0)
    return finite
