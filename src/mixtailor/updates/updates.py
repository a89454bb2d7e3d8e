"""`Updates`: n updates as a rule sees them, that is, as the few numbers between them that a rule decides from."""

from collections.abc import Sequence
from typing import Any, final, overload

import numpy as np

from mixtailor._types import Flags, Floats, Integers
from mixtailor.kernels import weighted
from mixtailor.kernels.selection import by_neighbours, distinct, median, medoid, nearest, products_about_medoid
from mixtailor.updates.blocks import Mixed, Taken
from mixtailor.updates.geometry import FAR, Basis
from mixtailor.updates.pairs import Rough
from mixtailor.updates.points import Combination, Point
from mixtailor.updates.reader import only_row, values
from mixtailor.updates.view import View

__all__ = ["Updates"]

# Median distances, beyond which a row's distances must be exact, for its inner products to have digits.
_ROUGHLY_FAR = 16.0


@final
class Updates(View):
    """n rows of d coordinates, of which a rule sees only the numbers between them.

    Laws: queries return float64 numpy arrays of size n or n x n that the caller must not write to; rows are never
    written to; `take`, `mix`, `beside` and `sample` are views, which copy nothing; a point is computed by `at` alone.
    Distances can be squared and summed: float64 rows beyond 1e140 are faults, found where they are measured.

    Use `Updates.arrived` or `Updates.of` to make one.
    """

    @overload
    def distances(self, p: float = 2.0) -> Floats: ...
    @overload
    def distances(self, p: tuple[float, ...]) -> tuple[Floats, ...]: ...
    def distances(self, p: float | tuple[float, ...] = 2.0) -> Floats | tuple[Floats, ...]:
        """The l_p distances between the rows, n x n, remembered. A tuple of norms costs one reading."""
        norms = p if isinstance(p, tuple) else (p,)
        if self._weights is not None:
            self._measure_mixed(norms)
        if self._weights is None:
            found = self.basis.measure(norms)
            if self._places is not None:
                rows = np.ix_(self._places, self._places)
                found = [between[rows] for between in found]
        else:
            found = [self._known[q] for q in norms]
        return tuple(found) if isinstance(p, tuple) else found[0]

    def _rough(self, p: float, *, scored: bool = False) -> Rough | None:
        return self.basis.rough(float(p), scored=scored) if self.is_everything() and self.n == self.basis.n else None

    def by_neighbours(
        self, neighbours: int, power: int = 2, p: float = 2.0, *, certain: int = 1
    ) -> tuple[Integers, Floats]:
        """The rows in order of their scores, of equal ones the lower index first, and the scores.

        A score is the sum of a row's distances, to a power, to its nearest other rows. Which rows come first, `certain`
        of them, is as exact arithmetic says. Where rows are many and float32, the scores themselves, and the order of
        the others, are right to a share of 5e-6.
        """
        rough = self._rough(p, scored=True)
        found = None if rough is None else rough.by_neighbours(neighbours, power, certain)
        return by_neighbours(self.distances(p), neighbours, power) if found is None else found

    def nearest(self, count: int, p: float = 2.0) -> Flags:
        """Which are the `count` rows nearest to each row, n x n, itself among them; ties go to the lower index."""
        rough = self._rough(p)
        found = None if rough is None else rough.nearest(count)
        if found is not None:
            return found
        chosen = np.zeros((self.n, self.n), np.bool_)
        np.put_along_axis(chosen, nearest(self.distances(p), count), True, axis=1)
        return chosen

    def roughly_about_medoid(self) -> tuple[int, Floats, Floats] | None:
        """As `about_medoid`, from distances that are right to a share of 2.2e-6; None where exact ones cost no more.

        Inner products about the medoid are then right to that share of the squares of the two rows' distances from it.
        A far row would cost the products with it their digits, so that its distances are exact.
        """
        rough = self._rough(2.0)
        if rough is None:
            return None
        middle, products, far = products_about_medoid(rough.lengths, self.n, _ROUGHLY_FAR)
        if far.any():
            lines, columns = (grid.ravel() for grid in np.meshgrid(np.nonzero(far)[0], np.arange(self.n)))
            if not rough.form(lines, columns):
                return None
            middle, products, far = products_about_medoid(rough.lengths, self.n, FAR)
            if far.any():
                return None
        return middle, products, rough.lengths

    def _measure_mixed(self, norms: Sequence[float]) -> None:
        """Distances between mixed rows: in l_2 from the geometry of the basis where that has the digits.

        Where far rows cancel inside a row it has not. The mixed rows are then measured, and are a basis of their own.
        """
        assert self._weights is not None
        missing = [p for p in dict.fromkeys(norms) if p not in self._known]
        if 2.0 in missing:
            between = self.basis.geometry.distances(self._weights)
            if between is not None:
                between.setflags(write=False)
                self._known[2.0] = between
                missing.remove(2.0)
        if not missing:
            return
        own, rows = self._own_basis()
        own.measure(missing)
        if 2.0 in missing:
            own.measure([p for p in self._known if p != 2.0])
            self.basis, self.source, self._weights, self._known = own, own.source, None, {}
            self._places = None
            if rows is not None:
                self._places, self.source = rows, Taken(self.reader, own.source, rows)
            return
        for p in missing:
            between = own.distances(p)
            self._known[p] = between if rows is None else between[np.ix_(rows, rows)]

    def _own_basis(self) -> tuple[Basis, Integers | None]:
        """These rows as a basis. Nearest-neighbour mixing makes the same row many times: it is measured once."""
        source, weights = self.source, self._weights
        assert weights is not None
        if isinstance(source, Mixed):
            source.made = True
            places, same = distinct(source.mixing)
            if len(places) < self.n:
                few = Mixed(self.reader, source.source, source.mixing[places], made=True)
                return Basis(self.reader, few, made_of=(self.basis, weights[places])), same
        return Basis(self.reader, source, made_of=(self.basis, weights)), None

    def norms(self, p: float = 2.0) -> Floats:
        """The l_p norms of the rows, n numbers."""
        norms: Floats = self.basis.norms(p) if self._weights is None else self.lengths_to(None, [p])[0]
        return norms[: self.n] if self._places is None else norms[self._places]

    @overload
    def distances_to(self, point: Point, p: float = 2.0) -> Floats: ...
    @overload
    def distances_to(self, point: Point, p: tuple[float, ...]) -> tuple[Floats, ...]: ...
    def distances_to(self, point: Point, p: float | tuple[float, ...] = 2.0) -> Floats | tuple[Floats, ...]:
        """The l_p distances of the rows to a point, n numbers, which is not computed. One reading for all norms."""
        if isinstance(p, tuple):
            return tuple(self.lengths_to(point, p))
        if p == 2.0:
            self._settle()
            if isinstance(point, Combination) and point.updates.basis is self.basis:
                aim: Floats = point.updates.over_basis(point.weights)
                if abs(aim.sum() - 1.0) < 1e-12 and np.allclose(self.weights.sum(axis=1), 1.0, rtol=0, atol=1e-12):
                    return np.asarray(self.basis.geometry.distances_to(self.weights, aim))
        if isinstance(point, Combination) and point.updates is self:
            return np.asarray(self.distances_to_each([point], [float(p)])[0])
        away: Floats = self.lengths_to(point, [p])[0]
        return away

    def _settle(self) -> None:
        """Make sure that the basis is the one whose geometry has the digits of these rows."""
        if self._weights is not None:
            self.distances(2.0)

    def lengths_to(self, point: Point | None, norms: Sequence[float]) -> Floats:
        """The l_p distances of the rows to a point, or their norms, (P, n), by one reading."""
        return self.reader.lengths_to(self.source, point, norms)

    def distances_to_each(self, points: Sequence[Combination], norms: Sequence[float]) -> list[Floats]:
        """The distances of the rows to several combinations of them, each in its own norm, by one reading."""
        powers, space = np.array(norms, np.float64), self.space

        def query(start: int, stop: int) -> Any:
            block = self.source.block(start, stop)
            pairs = zip(points, norms, strict=True)
            return space.stack([space.combination_lengths(block, point.weights, float(p)) for point, p in pairs])

        return list(self.reader.lengths(query, self.source.runs(), powers, self.n))

    def known_distances_to(self, weights: Floats) -> Floats | None:
        r"""The distances of the stored rows to a combination of them, from what was asked before; None where unknown.

        To one row, in any norm that was asked for; to others with sum one in l_2, up to the rounding of squares:

        .. math:: \lVert x_i - \sum_j w_j x_j \rVert^2 = \sum_j w_j D_{ij} - \tfrac{1}{2} w^T D w

        with squared distances D. Rows of weight zero do not take part, so a far one costs the others no digits.
        """
        known, n = self.basis.known_lengths(), len(self.received)
        if not self.basis.stored or not known:
            return None
        row = only_row(weights)
        if row is not None:
            return next(iter(known.values()))[row, :n]
        used = np.nonzero(weights)[0]
        if 2.0 not in known or not len(used) or abs(weights.sum() - 1.0) > 1e-9:
            return None
        share, squares = weights[used], known[2.0][:n, used] ** 2
        return np.sqrt(np.maximum(squares @ share - share @ squares[used] @ share / 2, 0.0))

    def dots(self, point: Point) -> Floats:
        """The inner products of the rows with a point, n numbers."""

        def query(start: int, stop: int) -> Any:
            return self.space.point_dots(self.source.block(start, stop), values(point, start, stop))

        return self.reader.total(query, self.source.runs(), self.n)

    def sketch(self, key: int, size: int) -> Floats:
        """A sketch of each row, n x size, by one reading: their inner products are about those of the rows.

        Each coordinate is added, with a random sign, to one of `size` buckets. Sketches are linear: those of sums and
        differences of rows are sums and differences of sketches. The relative error of an inner product is about
        ``sqrt(2 / size)``, whatever the rows contain, as long as they were made without knowledge of the key.
        """

        def query(start: int, stop: int) -> Any:
            return self.space.sketch(self.source.block(start, stop), start, key, size)

        return self.reader.total(query, self.source.runs(), self.n * size)

    def dot(self, first: Point, second: Point) -> float:
        """The inner product of two points."""
        return float(self.inner(first, second)[0, 1])

    def inner(self, *points: Point) -> Floats:
        """The inner products of some points, k x k: in n-space where their geometry is known, else by one pass."""
        basis = points[0].updates.basis
        if 2.0 in basis.lengths and all(isinstance(p, Combination) and p.updates.basis is basis for p in points):
            rows = [p.updates.over_basis(p.weights) for p in points if isinstance(p, Combination)]
            return np.asarray(basis.geometry.products(np.stack(rows)))
        count, space = len(points), self.space

        def query(start: int, stop: int) -> Any:
            block = space.block_of(space.stack([values(point, start, stop) for point in points]))
            return space.gram(block, -1, np.ones(count))

        return self.reader.total(query, self.source.runs(), count * count)

    def products(self, about: Point | None = None) -> Floats:
        """The inner products of ``row - about``, n x n; about None is the origin."""
        if about is None:
            return self._gram() if self.basis.base is None else self.basis.geometry.products(self.weights)
        self._settle()
        if isinstance(about, Combination) and about.updates.basis is self.basis:
            row, places = only_row(about.weights), self._distinct_places()
            if about.updates is self and row is not None and places is not None:
                known = self.basis.geometry.centred(places)
                if known.middle == row:
                    return np.asarray(known.products)
            aim: Floats = about.updates.over_basis(about.weights)
            return np.asarray(self.basis.geometry.products(self.weights - aim))
        beside = self.beside(about)
        return np.asarray(beside.products(beside.row(self.n))[: self.n, : self.n])

    def _gram(self) -> Floats:
        """Inner products about the origin, from the rows themselves."""
        inner = self.basis.inner()
        if self._weights is not None:
            return self._weights @ inner @ self._weights.T
        return inner if self._places is None else inner[np.ix_(self._places, self._places)]

    def _distinct_places(self) -> Integers | None:
        """Which rows of the basis these are, no two the same; None where they are mixed."""
        if self._weights is not None:
            return None
        places = np.arange(self.n) if self._places is None else self._places
        return places if self._places is None or len(set(places.tolist())) == self.n else None

    def about_medoid(self) -> tuple[int, Floats, Floats]:
        """The row whose floor(n/2)-th nearest other row is closest, the inner products of the rows about it, and the
        distances between the rows.

        Fewer than half of the rows cannot move it, so that near rows keep their digits.
        """
        self._settle()
        distances, places = self.distances(2.0), self._distinct_places()
        if places is not None:
            known = self.basis.geometry.centred(places)
            return known.middle, known.products, distances
        middle, weights = medoid(distances), self.weights
        return middle, self.basis.geometry.products(weights - weights[middle]), distances

    def about_weighted_medoid(self, mass: Floats) -> tuple[int, Floats, Floats]:
        """As `about_medoid`, of rows that count by their mass: less than half of the mass cannot move the row.

        More than half of the rows may have less than half of the mass. So everything is about this row, and what is far
        from it depends on the mass, too.
        """
        self._settle()
        distances, places = self.distances(2.0), self._distinct_places()
        middle = weighted.medoid(distances, mass)
        away = distances[middle]
        far = np.nonzero(away > FAR * weighted.median_of(away, mass))[0]
        products = (away[:, None] ** 2 + away[None, :] ** 2 - distances**2) / 2
        if len(far):
            if places is not None:
                lines = self.basis.geometry.lines(int(places[middle]), places[far])[:, places]
            else:  # mixed rows: where a far one points is lost, and its pull stays what Cauchy and Schwarz allow
                most = away[far][:, None] * away[None, :]
                lines = np.clip(products[far], -most, most)
            products[far], products[:, far] = lines, lines.T
        return middle, products, distances

    def distances_above_medoid(self, p: float = 2.0) -> Floats:
        """The distances between the rows, less those of the medoid where these are long: ``|x_i - x_j| - |x_m - x_j|``.

        For rules that compare sums of distances: a row at 1e20 would swallow the digits by which the other sums differ.
        In l_2, differences of distances to far rows come from inner products, exact to rounding. In other norms, a row
        more than 1e12 median distances away counts as equally far from all others.
        """
        distances = self.distances(p)
        middle = medoid(distances)
        away = distances[middle]
        usual = median(away)
        far = np.nonzero(away > FAR * usual)[0]
        if not len(far):
            return distances
        above = distances - away
        if p == 2.0:
            # |x_i - x_j| - |x_m - x_j| is the difference of the squares, |u_i|^2 - 2 u_i u_j, over the sum.
            inner = self.products(self.row(middle))
            above[:, far] = (np.diag(inner)[:, None] - 2 * inner[:, far]) / (distances[:, far] + away[far])
        else:
            lost = away > 1e12 * usual
            above[np.ix_(~lost, lost)] = 0.0
        return np.asarray(above)
