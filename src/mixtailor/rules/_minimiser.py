"""The point with the least sum of l_p distances to the rows, which is no combination of them unless p is 2."""

from functools import partial
from typing import Any

import numpy as np

from mixtailor._types import Floats
from mixtailor.updates import Median, Point, Updates
from mixtailor.updates.reader import values

__all__ = ["minimiser"]

_SMOOTHING = 1e-6  # of a row's distance, below which a coordinate's difference counts as no smaller
_LEAST = 1e-12  # the shortest step that is tried
_LONGER = 1.5


def minimiser(updates: Updates, p: float, tolerance: float, limit: int) -> tuple[Point, int, float]:
    r"""The minimiser of :math:`\sum_i \lVert x_i - z \rVert_p` for 1 < p < infinity, with steps and residual.

    .. math:: z_k \leftarrow z_k + t \, \frac{\sum_i w_{ik} (x_{ik} - z_k)}{\sum_i w_{ik}}, \qquad
        w_{ik} = \frac{|x_{ik} - z_k|^{p - 2}}{\lVert x_i - z \rVert_p^{p - 1}}

    The direction is minus the gradient, each coordinate divided by a positive number, so that a short enough step
    descends. With t = 1 it is the iteratively reweighted mean, which for p <= 2 never ascends; for larger p,
    t = 1 / (p - 1) makes it Newton's step in each coordinate. t is halved where the sum does not fall, and grows again
    slowly. The residual is the last step's part of the sum.
    """
    start: Point = updates.columns(Median())
    at = _flat(updates, start)
    distances = updates.distances_to(updates.given(at), p)
    total, size, residual = float(distances.sum()), 1.0 if p <= 2.0 else 1.0 / (p - 1.0), 0.0
    rows = [updates.row(i) for i in range(updates.n)]
    for steps in range(1, limit + 1):
        near = np.maximum(distances, _SMOOTHING * float(np.median(distances)))
        if not near.min() > 0.0:
            return start, 0, 0.0  # most rows are equal, and the median is the point
        direction = _flat(updates, updates.formula(partial(_direction, near, p), *rows, updates.given(at)))
        while True:
            there = at + size * direction
            reached = updates.distances_to(updates.given(there), p)
            gain = total - float(reached.sum())
            if gain > 0.0 or size < _LEAST:
                break
            size /= 2.0
        if gain <= 0.0:
            return updates.given(at), steps, 0.0  # no step descends: rounding is all that is left
        at, distances, total = there, reached, total - gain
        residual, size = gain / total if total > 0.0 else 0.0, min(_LONGER * size, 1.0)
        if residual <= tolerance:
            break
    return updates.given(at), steps, residual


def _direction(near: Floats, p: float, _start: int, _stop: int, *parts: Any) -> Any:
    *rows, at = parts
    above: Any = 0.0
    below: Any = 0.0
    for row, distance in zip(rows, near, strict=True):
        apart = row - at
        share = apart / float(distance)
        weight = (share * share + _SMOOTHING**2) ** (p / 2.0 - 1.0) / float(distance)
        above, below = above + weight * apart, below + weight
    # Where p is large, all the weights of a coordinate may be too small for float64.
    return above / (below + (below == 0.0) * 1.0)


def _flat(updates: Updates, point: Point) -> Any:
    """The coordinates of a point that this process holds, in float64."""
    first, last = updates.reader.storage.span
    vector = updates.space.zeros(last - first)

    def fill(start: int, stop: int) -> float:
        vector[start - first : stop - first] = values(point, start, stop)
        return 0.0

    updates.reader.collect(fill, updates.source.runs())
    return vector
