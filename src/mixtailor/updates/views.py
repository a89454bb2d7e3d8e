"""Lazy views: fewer rows, mixed rows, more rows. They read nothing until a pass asks for a block."""

from typing import TYPE_CHECKING, Any

import numpy as np

from mixtailor.updates import geometry
from mixtailor.updates.base import Updates
from mixtailor.updates.engine import Floats, Integers
from mixtailor.updates.points import Columns, Combination, Given, Point

if TYPE_CHECKING:
    from mixtailor.updates.home import Home

__all__ = ["Beside", "Mixed", "Taken"]


class _View(Updates):
    """Rows made of another's rows."""

    def __init__(self, parent: Updates, n: int) -> None:
        super().__init__(n, parent.d, parent.engine, parent.call)
        self.parent = parent

    @property
    def home(self) -> "Home":
        return self.parent.home

    @property
    def root(self) -> Updates:
        return self.parent.root

    @property
    def weights(self) -> Floats:
        return self._weights

    _weights: Floats

    def runs(self) -> list[tuple[int, int]]:
        return self.home.view_runs(max(self.n, self.parent.n))


class Taken(_View):
    """Some of the parent's rows; what the parent knows of their distances, it knows too."""

    def __init__(self, parent: Updates, rows: Integers) -> None:
        super().__init__(parent, len(rows))
        self.rows = rows
        self._weights = parent.weights[rows]

    def runs(self) -> list[tuple[int, int]]:
        return self.parent.runs()

    def block(self, start: int, stop: int) -> Any:
        return self.engine.take(self.parent.block(start, stop), self.rows)

    def coordinates(self, which: Integers) -> Floats:
        return self.parent.coordinates(which)[self.rows]

    def _measure(self, norms: tuple[float, ...]) -> dict[float, Floats]:
        return {
            p: between[np.ix_(self.rows, self.rows)]
            for p, between in zip(norms, self.parent.distances(norms), strict=True)
        }


class Mixed(_View):
    """Rows that are combinations of the parent's: W times the block, so that nothing of size n x d is ever made."""

    def __init__(self, parent: Updates, weights: Floats) -> None:
        if isinstance(parent, (Mixed, Taken)) and not isinstance(parent.parent, Beside):
            inner = parent.mixing if isinstance(parent, Mixed) else np.eye(parent.parent.n)[parent.rows]
            weights, parent = weights @ inner, parent.parent
        super().__init__(parent, len(weights))
        self.mixing = weights
        self._weights = weights @ parent.weights

    def block(self, start: int, stop: int) -> Any:
        return self.engine.mix(self.parent.block(start, stop), self.mixing)

    def coordinates(self, which: Integers) -> Floats:
        parent = self.parent.coordinates(which).astype(np.float64)
        rows = [weights[weights != 0.0] @ parent[weights != 0.0] for weights in self.mixing]
        return np.stack(rows) if rows else np.empty((0, len(which)))

    def _subset(self, rows: Integers) -> Updates:
        return super()._subset(rows) if self._distances else Mixed(self.parent, self.mixing[rows])

    def _measure(self, norms: tuple[float, ...]) -> dict[float, Floats]:
        others = tuple(p for p in norms if p != 2.0)
        found = super()._measure(others) if others else {}
        if 2.0 in norms:
            found[2.0] = geometry.distances(self.root, self._weights)
        return found


class Beside(_View):
    """The parent's rows and points after them. Combinations of the same root stay in its geometry; a columnwise
    statistic or a vector from outside makes this view a root of its own."""

    def __init__(self, parent: Updates, points: "tuple[Point, ...]") -> None:
        super().__init__(parent, parent.n + len(points))
        self.points = points
        self._inside = all(isinstance(p, Combination) and p.updates.root is parent.root for p in points)
        if self._inside:
            rows = [p.weights @ p.updates.weights for p in points if isinstance(p, Combination)]
            self._weights = np.vstack([parent.weights, *rows])
        else:
            self._weights = np.eye(self.n)

    @property
    def root(self) -> Updates:
        return self.parent.root if self._inside else self

    def block(self, start: int, stop: int) -> Any:
        vectors = [self.values(point, start, stop) for point in self.points]
        return self.engine.beside(self.parent.block(start, stop), vectors)

    def coordinates(self, which: Integers) -> Floats:
        return np.vstack([self.parent.coordinates(which), *(self._coordinates_of(p, which) for p in self.points)])

    def _coordinates_of(self, point: Point, which: Integers) -> Floats:
        from mixtailor.updates.dense import Dense

        if isinstance(point, Given):
            return self.home.given_coordinates(point.vector, which)
        small = Dense.of(point.updates.coordinates(which).astype(np.float64), self.call)
        if isinstance(point, Combination):
            return np.asarray(small.at(small.combine(point.weights)))
        assert isinstance(point, Columns)
        return np.asarray(small.at(small.columns(point.statistic)))

    def _measure(self, norms: tuple[float, ...]) -> dict[float, Floats]:
        others = tuple(p for p in norms if p != 2.0 or not self._inside)
        found = super()._measure(others) if others else {}
        if self._inside and 2.0 in norms:
            found[2.0] = geometry.distances(self.root, self._weights)
        return found
