"""A few telling directions of the honest updates, in one geometry: where the searching attacks look."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixtailor._types import Floats
from mixtailor.attacks._formulas import flat
from mixtailor.attacks.base import Scene
from mixtailor.updates import Combination, Deviation, Point, Updates

__all__ = ["Frame", "frame_of", "principal"]


@dataclass(frozen=True, eq=False)
class Frame:
    """Rows that candidates are combinations of, and the directions in which they are moved.

    Attributes
    ----------
    updates : Updates
        The honest updates, and after them what the directions need besides.
    directions : array
        Weights on those rows, one direction of length one in each row.
    names : tuple of str
        What the directions are.
    centre : array
        The weights of the honest mean.
    unit : float
        The root mean square distance of the honest updates to their mean: a step of length one.
    """

    updates: Updates
    directions: Floats
    names: tuple[str, ...]
    centre: Floats
    unit: float

    def weights_of(self, point: Point) -> Floats:
        """The weights of a point of this frame or of the honest updates."""
        assert isinstance(point, Combination)
        if point.updates is self.updates:
            return point.weights
        return np.append(point.weights, np.zeros(self.updates.n - len(point.weights)))

    def points(self, rows: Floats, **facts: object) -> list[Combination]:
        """Points from rows of weights; rows that are equal become one point, which is then computed once."""
        made: dict[bytes, Combination] = {}
        for row in rows:
            made.setdefault(row.tobytes(), self.updates.combine(row, **facts))
        return [made[row.tobytes()] for row in rows]

    def distances(self, rows: Floats) -> Floats:
        """The distances between the points that rows of weights are."""
        return self.updates.mix(rows).distances(2.0)


def frame_of(scene: Scene, count: int, extra: Sequence[Point] = (), *, spread: bool = True) -> Frame:
    """The honest updates with their telling directions: the mean, the spread of each coordinate, the same with the
    mean's signs turned, and the `count` leading principal directions.

    Parameters
    ----------
    scene : Scene
    count : int
        How many principal directions.
    extra : sequence of Point
        Points that the frame is to hold besides; they are its last rows.
    spread : bool
        Whether to have the two directions that are no combinations of rows.
    """
    honest = scene.honest
    m = honest.n
    beside: list[Point] = []
    if spread:
        deviation = honest.columns(Deviation())
        turned = honest.formula(
            lambda _start, _stop, x, s: ((x < 0) * 1.0 - (x > 0) * 1.0) * s, honest.mean(), deviation
        )
        # Computed once: a search asks for them in every pass of every candidate.
        beside = [honest.given(flat(honest, point)) for point in (deviation, turned)]
    updates = honest.beside(*beside, *extra)
    updates.distances(2.0)
    n = updates.n
    centre = np.append(np.full(m, 1.0 / m), np.zeros(n - m))
    names, rows = ["mean"], [centre]
    if spread:
        names += ["spread", "turned spread"]
        rows += [np.eye(n)[m], np.eye(n)[m + 1]]
    leading, unit = principal(honest, count)
    names += [f"principal {k + 1}" for k in range(len(leading))]
    rows += [np.append(row, np.zeros(n - m)) for row in leading]
    lengths = np.sqrt(np.maximum(np.diag(updates.inner(*(updates.combine(row) for row in rows))), 0.0))
    kept = [k for k in range(len(rows)) if lengths[k] > 0.0]
    directions = np.array([rows[k] / lengths[k] for k in kept]).reshape(len(kept), n)
    size = unit if unit > 0.0 else float(lengths[0]) or 1.0
    return Frame(updates, directions, tuple(names[k] for k in kept), centre, size)


def principal(honest: Updates, count: int) -> tuple[Floats, float]:
    """The leading principal directions of the rows, as weights on them, and the rows' distance to their mean (rms).

    From the inner products about the mean: no vector of d coordinates is made.
    """
    m = honest.n
    products = honest.products(honest.mean())
    squares, vectors = np.linalg.eigh(products)
    unit = math.sqrt(max(float(np.trace(products)) / m, 0.0))
    order = np.argsort(squares)[::-1]
    kept = [k for k in order[: min(count, m - 1)] if squares[k] > 1e-12 * max(float(squares[order[0]]), 1e-300)]
    # About the mean: weights that sum to zero.
    rows = [vectors[:, k] - vectors[:, k].mean() for k in kept]
    return np.array(rows).reshape(len(rows), m), unit
