"""Lazy views: fewer rows, mixed rows, more rows. They read nothing until a pass asks for a block."""

from typing import TYPE_CHECKING, Any

import numpy as np

from mixtailor.kernels.selection import distinct
from mixtailor.updates import geometry
from mixtailor.updates.base import Updates
from mixtailor.updates.engine import Floats, Integers
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point

if TYPE_CHECKING:
    from mixtailor.updates.home import Home

__all__ = ["Beside", "Joined", "Mixed", "Taken"]

# Up to so many points beside the rows, their distances are measured point by point.
_FEW = 2
# Below this, a sum of p-th powers has lost digits to underflow.
_TINY = 1e-280


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

    @property
    def weights(self) -> Floats:
        return self.parent.weights[self.rows]

    def over_home(self) -> Floats | None:
        theirs = self.parent.over_home()
        return None if theirs is None else theirs[self.rows]

    def _by_parts(self) -> bool:
        return self.parent._by_parts()

    def _settled(self) -> None:
        self.parent._settled()

    def _rows_of_root(self) -> Integers | None:
        theirs = self.parent._rows_of_root()
        return None if theirs is None or len(set(self.rows.tolist())) < self.n else theirs[self.rows]

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
    """Rows that are combinations of the parent's: W times the block, so that nothing of size n x d is ever made.

    Where far rows cancel inside one, or squares are no numbers, the geometry of the parent's root has no digits of what
    is left. Distances are then measured, and the view is a root of its own.
    """

    mixing: Floats

    def __init__(self, parent: Updates, weights: Floats) -> None:
        if isinstance(parent, (Mixed, Taken)) and not isinstance(parent.parent, Beside) and parent.root is not parent:
            inner = parent.mixing if isinstance(parent, Mixed) else np.eye(parent.parent.n)[parent.rows]
            weights, parent = weights @ inner, parent.parent
        super().__init__(parent, len(weights))
        self.mixing = weights
        self._weights = weights if parent.root is parent else weights @ parent.weights
        self._root = parent.root
        self._made = False

    @property
    def root(self) -> Updates:
        return self._root

    def over_home(self) -> Floats | None:
        theirs = self.parent.over_home()
        return None if theirs is None else self.mixing @ theirs

    def _settled(self) -> None:
        self.distances(2.0)

    def _by_parts(self) -> bool:
        # What was decided from rows that were made has their rounding; what was from the root's distances has not.
        return self._made

    def block(self, start: int, stop: int) -> Any:
        self._made = True
        return self.engine.mix(self.parent.block(start, stop), self.mixing)

    def coordinates(self, which: Integers) -> Floats:
        parent = self.parent.coordinates(which).astype(np.float64)
        rows = [weights[weights != 0.0] @ parent[weights != 0.0] for weights in self.mixing]
        return np.stack(rows) if rows else np.empty((0, len(which)))

    def _subset(self, rows: Integers) -> Updates:
        return super()._subset(rows) if self._distances else Mixed(self.parent, self.mixing[rows])

    def _measure(self, norms: tuple[float, ...]) -> dict[float, Floats]:
        known = geometry.distances(self.root, self._weights) if 2.0 in norms else None
        others = norms if known is None else tuple(p for p in norms if p != 2.0)
        self._made = self._made or bool(others)
        if 2.0 in others:
            self._root, self._weights = self, np.eye(self.n)
        found = self._between(others) if others else {}
        return found if known is None else {**found, 2.0: known}

    def _between(self, norms: tuple[float, ...]) -> dict[float, Floats]:
        # Nearest-neighbour mixing makes the same row many times, and the same weights give the same bits.
        places, alike = distinct(self.mixing)
        if len(places) == self.n:
            return super()._measure(norms)
        few = Mixed(self.parent, self.mixing[places]).distances(norms)
        found = {p: between[np.ix_(alike, alike)] for p, between in zip(norms, few, strict=True)}
        for between in found.values():
            between.setflags(write=False)
        return found


class Beside(_View):
    """The parent's rows and points after them. Combinations of the same root stay in its geometry, and so do points
    that were made beside this parent; any other point makes this view a root of its own."""

    def __init__(self, parent: Updates, points: "tuple[Point, ...]") -> None:
        super().__init__(parent, parent.n + len(points))
        self.points = points
        found = _common(parent, points)
        self._root: Updates = self
        if found is None:
            self._weights = np.eye(self.n)
        else:
            self._root, rows = found
            self._weights = np.vstack([rows, *(_of(point) for point in points)])

    @property
    def root(self) -> Updates:
        return self._root

    def block(self, start: int, stop: int) -> Any:
        return self.engine.beside(self.parent.block(start, stop), self._vectors(start, stop))

    def _vectors(self, start: int, stop: int) -> list[Any]:
        """The points over one run, equal ones computed once."""
        values = {point: self.values(point, start, stop) for point in dict.fromkeys(self.points)}
        return [values[point] for point in self.points]

    def coordinates(self, which: Integers) -> Floats:
        return np.vstack([self.parent.coordinates(which), *(self._coordinates_of(p, which) for p in self.points)])

    def _coordinates_of(self, point: Point, which: Integers) -> Floats:
        from mixtailor.updates.dense import Dense

        if isinstance(point, Given):
            return self.home.given_coordinates(point.vector, which)
        if isinstance(point, Formula):
            return self._by_runs(point, which)
        small = Dense.of(point.updates.coordinates(which).astype(np.float64), self.call)
        if isinstance(point, Combination):
            return np.asarray(small.at(small.combine(point.weights)))
        assert isinstance(point, Columns)
        return np.asarray(small.at(small.columns(point.statistic)))

    def _by_runs(self, point: Point, which: Integers) -> Floats:
        def question(start: int, stop: int) -> Any:
            found = np.zeros(len(which))
            here = (which >= start) & (which < stop)
            if here.any():
                found[here] = self.home.picked(self.values(point, start, stop), which[here] - start)
            return found

        return self._total(question, size=len(which))

    def _measure(self, norms: tuple[float, ...]) -> dict[float, Floats]:
        inside = self._root is not self
        between = geometry.distances(self._root, self._weights) if inside and 2.0 in norms else None
        found = {} if between is None else {2.0: between}
        others = tuple(p for p in norms if p not in found)
        if not others:
            return found
        distinct = list(dict.fromkeys(self.points))
        # A point is computed anew for every pass, so for many it is cheaper to measure everything at once.
        known = self._extended(others, distinct) if len(distinct) <= _FEW else {}
        left = tuple(p for p in others if p not in known)
        return {**found, **known, **(super()._measure(left) if left else {})}

    def _extended(self, norms: tuple[float, ...], distinct: "list[Point]") -> dict[float, Floats]:
        """What the parent knows of its rows, and one pass a point for the distances to it; equal points count once.

        Norms whose sums over- or underflow are left out.
        """
        between = self.parent.distances(norms)
        powers, rows, count = np.array(norms), self.parent.n, len(distinct)
        largest = np.isinf(powers)
        sums = np.zeros((len(norms), count, rows + count))
        for index, point in enumerate(distinct):
            later = distinct[index + 1 :]

            def question(start: int, stop: int, point: Point = point, later: "list[Point]" = later) -> Any:
                block = self.parent.block(start, stop)
                if later:
                    block = self.engine.beside(block, [self.values(other, start, stop) for other in later])
                return self.engine.point_sums(block, self.values(point, start, stop), powers)

            total = self._fold(question, size=len(norms) * self.n, maximum=largest)
            for which, maximum in ((largest, True), (~largest, False)):
                if which.any():
                    total[which] = self.home.reduce(total[which], maximum=maximum)
            sums[:, index, :rows] = total[:, :rows]
            sums[:, index, rows + index + 1 :] = sums[:, index + 1 :, rows + index] = total[:, rows:]
        place = np.array([distinct.index(point) for point in self.points])
        columns = np.concatenate([np.arange(rows), rows + place])
        found = {}
        for p, known, total in zip(norms, between, sums, strict=True):
            off_diagonal = np.delete(total.ravel(), np.arange(count) * (rows + count + 1) + rows)
            if not np.isfinite(total).all() or (not np.isinf(p) and (off_diagonal < _TINY).any()):
                continue
            away = (total if np.isinf(p) else total ** (1.0 / p))[np.ix_(place, columns)]
            found[p] = np.empty((self.n, self.n))
            found[p][:rows, :rows], found[p][rows:], found[p][:rows, rows:] = known, away, away[:, :rows].T
            found[p].setflags(write=False)
        return found


class Joined(Beside):
    """The parent's rows and points after them, rounded to the rows' own type: what a server receives when the points
    are sent to it. Rows are read in place.

    Parameters
    ----------
    held : bool
        Keep the points once they are computed, for many rules that are tried on them: memory for a row a point.
    """

    def __init__(self, parent: Updates, points: "tuple[Point, ...]", *, held: bool = False) -> None:
        super().__init__(parent, points)
        self._held: dict[tuple[int, int], Any] | None = {} if held and self.home.in_place else None

    def runs(self) -> list[tuple[int, int]]:
        return self.parent.runs()

    def block(self, start: int, stop: int) -> Any:
        run = start, stop
        if self._held is not None and run in self._held:
            return self._held[run]
        block = self.engine.beside(self.parent.block(start, stop), self._vectors(start, stop), rounded=True)
        if self._held is not None:
            self._held[run] = block
        return block


def _of(point: Point) -> Floats:
    """A combination's weights on the rows of its root."""
    assert isinstance(point, Combination)
    weights: Floats = point.weights @ point.updates.weights
    return weights


def _common(parent: Updates, points: "tuple[Point, ...]") -> "tuple[Updates, Floats] | None":
    """The root that the parent's rows and all points are combinations of, with the weights of the rows; None if none.

    It is the parent's, or one that was made by putting something beside the parent or beside the parent's root.
    """
    roots = {id(point.updates.root): point.updates.root for point in points if isinstance(point, Combination)}
    if len(roots) != 1 or not all(isinstance(point, Combination) for point in points):
        return None
    (root,) = roots.values()
    if root is parent.root:
        return root, parent.weights
    if isinstance(root, Beside):
        rows = parent.weights if root.parent is parent.root else np.eye(parent.n) if root.parent is parent else None
        if rows is not None:
            return root, np.column_stack([rows, np.zeros((parent.n, root.n - rows.shape[1]))])
    return None
