"""Inner products between rows, and of rows with a point, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import kernel, run_at

__all__ = ["gram", "point_dots"]

RUN = 512


@kernel
def gram(
    addresses: NDArray[np.intp], like: Any, width: int, about: int, inverse_scales: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Inner products of ``(x_i - x_about) * inverse_scales[i]``; ``about = -1`` is the origin.

    The differences are formed in float64 before anything is multiplied: a row near the others keeps its digits.
    """
    rows = addresses.size
    answer = np.zeros((rows, rows))
    tile = np.empty((rows, RUN))
    centre = np.zeros(RUN)
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        if about >= 0:
            row = run_at(addresses[about], like, start, length)
            for c in range(length):
                centre[c] = row[c]
        for i in range(rows):
            row = run_at(addresses[i], like, start, length)
            scale = inverse_scales[i]
            for c in range(length):
                tile[i, c] = (np.float64(row[c]) - centre[c]) * scale
        for i in range(rows):
            for j in range(i, rows):
                total = 0.0
                for c in range(length):
                    total += tile[i, c] * tile[j, c]
                answer[i, j] += total
    for i in range(rows):
        for j in range(i):
            answer[i, j] = answer[j, i]
    return answer


@kernel
def point_dots(addresses: NDArray[np.intp], like: Any, width: int, point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inner product of each row with `point`."""
    answer = np.zeros(addresses.size)
    for start in range(0, width, RUN):
        length = min(RUN, width - start)
        part = point[start : start + length]
        for i in range(addresses.size):
            row = run_at(addresses[i], like, start, length)
            total = 0.0
            for c in range(length):
                total += row[c] * part[c]
            answer[i] += total
    return answer
