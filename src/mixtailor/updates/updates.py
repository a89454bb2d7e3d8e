"""`Updates`: n updates as a rule sees them, that is, as the few numbers between them that a rule decides from."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsBytes, TypeAlias, TypeVar, final, overload

import numpy as np

from mixtailor._types import Array, Flags, Floats, Integers
from mixtailor.intake.arrival import Arrival
from mixtailor.kernels import weighted
from mixtailor.kernels.columnwise import Statistic
from mixtailor.kernels.sampling import draw
from mixtailor.kernels.selection import by_neighbours, distinct, median, medoid, nearest, products_about_medoid
from mixtailor.storage.layers import Matrix
from mixtailor.storage.rows import Rows
from mixtailor.updates.blocks import Beside, Blocks, Mixed, Points, Taken
from mixtailor.updates.geometry import FAR, Basis
from mixtailor.updates.numbers import Numbers, Unseen
from mixtailor.updates.pairs import Rough
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point
from mixtailor.updates.reader import Reader, evaluate, only_row, values

__all__ = ["Call", "Updates"]

Indices: TypeAlias = Sequence[int] | Integers
T = TypeVar("T")

# Median distances, beyond which a row's distances must be exact, for its inner products to have digits.
_ROUGHLY_FAR = 16.0


@final
class Call:
    """The randomness of a call and what its caller knows.

    The randomness is a generator, or the key it comes from; by default the operating system's. The reference is what
    the caller trusts, or had last round, flat. The views are what a memory says: inner products of the updates,
    V x n x n, one matrix for each way to look at them.
    """

    __slots__ = ("_random", "honest", "reference", "views")

    def __init__(
        self,
        random: np.random.Generator | SupportsBytes | None = None,
        reference: Any = None,
        honest: tuple[int, ...] | None = None,
        views: Floats | None = None,
    ) -> None:
        self._random, self.reference, self.honest, self.views = random, reference, honest, views

    @property
    def random(self) -> np.random.Generator:
        """Created on first use: most rules draw nothing, and a generator costs as much as a median."""
        if not isinstance(self._random, np.random.Generator):
            key = None if self._random is None else int.from_bytes(bytes(self._random), "big")
            self._random = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(key)))
        return self._random

    def seeing(self, views: Floats) -> "Call":
        """The same randomness, with what a memory says."""
        return Call(self._random, views=views)


@final
class Updates:
    """n rows of d coordinates, of which a rule sees only the numbers between them.

    Laws: queries return float64 numpy arrays of size n or n x n that the caller must not write to; rows are never
    written to; `take`, `mix`, `beside` and `sample` are views, which copy nothing; a point is computed by `at` alone.
    Distances can be squared and summed: float64 rows beyond 1e140 are faults, found where they are measured.

    Rows are combinations of those of a basis, by index or by weights. Views of one basis share what is known of it.

    Use `Updates.arrived` or `Updates.of` to make one.
    """

    def __init__(
        self,
        reader: Reader,
        call: Call,
        source: Blocks | None = None,
        basis: Basis | None = None,
        *,
        places: Integers | None = None,
        weights: Floats | None = None,
        known: dict[float, Floats] | None = None,
    ) -> None:
        if source is None:  # the received updates
            source = reader
            if reader.arrival.base:
                source, places = Mixed.differences(reader), np.arange(reader.n - 1)
        self._basis = basis
        self.reader, self.space, self.source, self.call = reader, reader.space, source, call
        self.n, self.d, self.received = source.n, reader.storage.d, reader.received
        self._places, self._weights = places, weights  # rows of the basis, or weights on them; both None: all of them
        self._known: dict[float, Floats] = known or {}  # distances between mixed rows
        self._remembered: tuple[Call, dict[object, Any]] = (call, {})

    @classmethod
    def of(cls, storage: Rows, call: Call | None = None) -> "Updates":
        """The rows of a storage."""
        return cls.arrived(Arrival.of(storage), call)

    @classmethod
    def arrived(cls, arrival: Arrival, call: Call | None = None) -> "Updates":
        """The updates of an arrival whose structure is sound."""
        return cls(Reader(arrival), call or Call())

    @classmethod
    def seen(cls, numbers: Numbers, call: Call | None = None) -> "Updates":
        """Updates of which these numbers alone are known.

        Examples
        --------
        >>> from mixtailor import Medoid
        >>> numbers = Numbers({2.0: [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]})
        >>> Medoid().decide(Updates.seen(numbers)).weights
        array([0., 1., 0.])
        """
        updates = cls.of(Unseen(numbers.n), call)
        updates._basis = Basis(updates.reader, updates.reader, numbers=numbers)
        return updates

    # What this view is made of.

    @property
    def basis(self) -> Basis:
        """The rows that these are combinations of. Made on first use: columnwise rules need none."""
        if self._basis is None:
            base = self.reader.n - 1 if self.reader.arrival.base else None
            self._basis = Basis(self.reader, self.reader, base=base)
        return self._basis

    @property
    def weights(self) -> Floats:
        """The weights that make these rows of the rows of the basis."""
        if self._weights is not None:
            return self._weights
        eye = np.eye(self.basis.n)
        return eye if self._places is None else eye[self._places]

    def over_basis(self, weights: Floats) -> Floats:
        """Weights on these rows as weights on the rows of the basis, of which a base has none."""
        if self._weights is not None:
            return np.asarray(weights @ self._weights)
        if self._places is None:
            return weights
        found = np.zeros(self.basis.n)
        np.add.at(found, self._places, weights)
        return found

    def over_received(self, weights: Floats) -> Floats | None:
        """Weights on these rows as weights on the received updates; None if the rows depend on anything else."""
        return self.basis.over_received(self.over_basis(weights))

    def places(self) -> tuple[int, ...] | None:
        """Which of the stored rows these are; None if they are mixed, or if points were added to them."""
        if not self.basis.stored or self._weights is not None:
            return None
        return tuple(range(self.n)) if self._places is None else tuple(self._places.tolist())

    def coordinates(self, which: Integers) -> Array:
        """Single coordinates of all rows, in ascending order: a small numpy matrix."""
        return self.source.coordinates(which)

    def only(self, rows: Sequence[int]) -> "Updates":
        """These of the received updates, as if the others had never arrived."""
        return Updates(self.reader.only(rows), self.call)

    def as_received(self) -> bool:
        """Whether these are the received updates, all of them."""
        return self.source is self.reader or (isinstance(self.source, Mixed) and self.source.shared)

    @property
    def largest(self) -> float:
        """The largest number that every coordinate of a result can hold."""
        return self.reader.storage.largest

    @property
    def everything(self) -> "Updates":
        """All stored rows, whatever this view has made of them."""
        return Updates(self.reader, self.call)

    # The call.

    @property
    def random(self) -> np.random.Generator:
        """The randomness of this call: the same again when the rule starts again without faulty updates."""
        return self.call.random

    @property
    def reference(self) -> Point | None:
        """What the caller trusts, or had last round."""
        return None if self.call.reference is None else Given(self, self.call.reference)

    @property
    def views(self) -> Floats | None:
        """What a memory says of these rows: inner products, V x n x n; None without a memory."""
        views = self.call.views
        if views is None or self.is_everything():
            return views
        known = [over for row in np.eye(self.n) if (over := self.over_received(row)) is not None]
        if len(known) < self.n:
            return None  # rows that depend on more than the received updates
        return np.asarray(np.stack(known) @ views @ np.stack(known).T)

    def remember(self, key: object, compute: Callable[[], T]) -> T:
        """What one rule computed in this call and others of a pool will need; a key without a hash is not kept."""
        if self._remembered[0] is not self.call:  # another call has other randomness
            self._remembered = (self.call, {})
        known = self._remembered[1]
        try:
            if key in known:
                return known[key]  # type: ignore[no-any-return]  # what this key's compute gave
        except TypeError:
            return compute()
        found = known[key] = compute()
        return found

    # Views.

    def take(self, rows: Indices, *, shared: bool = False) -> "Updates":
        """These rows only. What is known of their distances stays known.

        With `shared` set, what is asked of them is measured for all rows, and known to all views.
        """
        chosen = np.asarray(rows, np.intp)
        unique = len(set(chosen.tolist())) == len(chosen)
        if not shared and self.as_received() and not (self.basis.lengths and unique):
            # Rows that are not taken need not be read.
            return self.only([int(row) for row in chosen])
        if self._weights is None:
            places = chosen if self._places is None else self._places[chosen]
            return Updates(self.reader, self.call, Taken(self.reader, self.source, chosen), self.basis, places=places)
        pairs = np.ix_(chosen, chosen)
        known = {p: between[pairs] for p, between in self._known.items()}
        source: Blocks = Taken(self.reader, self.source, chosen)
        if not known and isinstance(self.source, Mixed):
            source = Mixed(self.reader, self.source.source, self.source.mixing[chosen])
        return Updates(self.reader, self.call, source, self.basis, weights=self._weights[chosen], known=known)

    def mix(self, weights: Floats) -> "Updates":
        """Rows that are combinations of these: one for each row of `weights` (m x n)."""
        mixing = np.asarray(weights, np.float64)
        source, made = self.source, mixing
        own = source is self.basis.source or self.as_received()
        if not own and isinstance(source, (Mixed, Taken)) and not isinstance(source.source, Beside):
            inner = source.mixing if isinstance(source, Mixed) else np.eye(source.source.n)[source.rows]
            source, made = source.source, mixing @ inner
        over = mixing if self._places is None and self._weights is None else mixing @ self.weights
        made = made.view()
        made.setflags(write=False)  # the same for all blocks, and known to be
        return Updates(self.reader, self.call, Mixed(self.reader, source, made), self.basis, weights=over)

    def beside(self, *points: Point, rounded: bool = False, held: bool = False) -> "Updates":
        """These rows and, after them, the points; `rounded` to the type of the rows, as a server would receive them."""
        if not points:
            return self
        source = Beside(self, points, rounded=rounded, held=held)
        found = self._shared_basis(points)
        if found is None:
            return Updates(self.reader, self.call, source, Basis(self.reader, source))
        basis, rows = found
        over = np.vstack([rows, *(point.updates.over_basis(point.weights) for point in points)])  # type: ignore[attr-defined]  # combinations
        return Updates(self.reader, self.call, source, basis, weights=over)

    def rows_of(self, points: Sequence[Point], parts: Sequence[Integers]) -> "Updates":
        """Points as rows, where each was made of a part of these rows: the indices in `parts`."""
        source = Points(self.reader, points)
        made_of = None
        if self.is_everything() and self.basis.base is None:
            combined = [point for point in points if isinstance(point, Combination)]
            if len(combined) == len(points):
                if all(point.updates.basis is self.basis for point in combined):
                    return self.mix(np.stack([point.updates.over_basis(point.weights) for point in combined]))
                over = np.zeros((len(points), self.n))
                for line, point, part in zip(over, combined, parts, strict=True):
                    own = point.updates.over_received(point.weights)
                    line[part] = np.nan if own is None else own
                made_of = None if np.isnan(over).any() else (self.basis, over)
        return Updates(self.reader, self.call, source, Basis(self.reader, source, made_of=made_of))

    def basis_difference(self, weights: Floats, other: Combination) -> Combination:
        """The combination of these rows by `weights`, less another of the same basis."""
        apart = self.over_basis(weights) - other.updates.over_basis(other.weights)
        return Updates(self.reader, self.call, self.basis.source, self.basis).combine(apart)

    def _shared_basis(self, points: Sequence[Point]) -> "tuple[Basis, Floats] | None":
        """The basis that these rows and all points are combinations of, with the weights of the rows; None if none.

        It is that of these rows, or one that was made by putting points beside them, or beside all rows of theirs.
        """
        bases = {id(point.updates.basis): point.updates.basis for point in points if isinstance(point, Combination)}
        if len(bases) != 1 or not all(isinstance(point, Combination) for point in points):
            return None
        (basis,) = bases.values()
        if basis is self.basis:
            return basis, self.weights
        below = basis.below
        if below is self:
            rows = np.eye(self.n)
        elif below is not None and below.basis is self.basis and below.is_everything():
            rows = self.weights
        else:
            return None
        return basis, np.column_stack([rows, np.zeros((self.n, basis.n - rows.shape[1]))])

    def is_everything(self) -> bool:
        """Whether these are all rows of the basis, in its order."""
        return self._places is None and self._weights is None

    def sample(self, k: int) -> "Updates":
        """The rows on k coordinates drawn without replacement; all of them where d is no larger."""
        if k >= self.d:
            return self
        return self.derived(self.source.coordinates(draw(self.random, self.d, k)), self.call)

    def derived(self, rows: Array, call: Call) -> "Updates":
        """Rows that were computed from these, a matrix. Faults are looked for and named here: of the rows received."""
        self.reader.suspect(rows)
        found = Updates.of(Matrix.of(rows), call)
        found.reader.examined = True
        return found

    # Queries.

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
            self.basis.measure(norms)
            found = [self._at_places(self.basis.lengths[q]) for q in norms]
        else:
            found = [self._known[q] for q in norms]
        return tuple(found) if isinstance(p, tuple) else found[0]

    def _at_places(self, between: Floats) -> Floats:
        """The part of an n x n matrix of the basis that belongs to these rows."""
        return between if self._places is None else between[np.ix_(self._places, self._places)]

    def _rough(self, p: float, *, scored: bool = False) -> Rough | None:
        return self.basis.rough(float(p), scored=scored) if self.is_everything() and self.n == self.basis.n else None

    def by_neighbours(
        self, neighbours: int, power: int = 2, p: float = 2.0, *, certain: int = 1
    ) -> tuple[Integers, Floats]:
        """The rows in order of their scores, of equal ones the lower index first, and the scores.

        A score is the sum of a row's distances, to a power, to its nearest other rows. Which rows come first, `certain`
        of them, is as exact arithmetic says. Where rows are many and float32, the scores themselves, and the order of
        the others, are right to a share of 2e-5 for rows like gradients.
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
        """As `about_medoid`, from float32 distances; None where exact ones cost no more.

        Inner products about the medoid are then right to a share of 4e-5 of the squares of the two rows' distances from
        it, and to 1e-7 or so on rows like gradients. A far row would cost the products with it their digits, so that
        its distances are exact.
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
            between = self.basis.between(self._weights)
            if between is not None:
                between.setflags(write=False)
                self._known[2.0] = between
                missing.remove(2.0)
        if not missing:
            return
        source, weights, rows = self.source, self._weights, None
        if isinstance(source, Mixed):
            source.made = True
            # Nearest-neighbour mixing makes the same row many times: it is measured once.
            places, same = distinct(source.mixing)
            if len(places) < self.n:
                source = Mixed(self.reader, source.source, source.mixing[places], made=True)
                weights, rows = weights[places], same
        own = Basis(self.reader, source, made_of=(self.basis, weights))
        own.measure(missing)
        if 2.0 in missing:
            own.measure([p for p in self._known if p != 2.0])
            self._basis, self._places, self._weights, self._known = own, rows, None, {}
            self.source = source if rows is None else Taken(self.reader, source, rows)
            return
        for p in missing:
            between = own.distances(p)
            self._known[p] = between if rows is None else between[np.ix_(rows, rows)]

    def norms(self, p: float = 2.0) -> Floats:
        """The l_p norms of the rows, n numbers."""
        norms: Floats = self.basis.norms(p) if self._weights is None else self.lengths_to(None, [p])[0]
        return norms[: self.n] if self._places is None else norms[self._places]

    def distances_to(self, point: Point, p: float = 2.0) -> Floats:
        """The l_p distances of the rows to a point, n numbers. The point is not computed."""
        if p == 2.0:
            self._settle()
            if isinstance(point, Combination) and point.updates.basis is self.basis:
                aim: Floats = point.updates.over_basis(point.weights)
                if abs(aim.sum() - 1.0) < 1e-12 and np.allclose(self.weights.sum(axis=1), 1.0, rtol=0, atol=1e-12):
                    return np.asarray(self.basis.distances_to(self.weights, aim))
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
            return np.asarray(basis.products(np.stack(rows)))
        count, space = len(points), self.space

        def query(start: int, stop: int) -> Any:
            block = space.block_of(space.stack([values(point, start, stop) for point in points]))
            return space.gram(block, -1, np.ones(count))

        return self.reader.total(query, self.source.runs(), count * count)

    def products(self, about: Point | None = None) -> Floats:
        """The inner products of ``row - about``, n x n; about None is the origin."""
        if about is None:
            return self._gram() if self.basis.base is None else self.basis.products(self.weights)
        self._settle()
        if isinstance(about, Combination) and about.updates.basis is self.basis:
            aim: Floats = about.updates.over_basis(about.weights)
            return np.asarray(self.basis.products(self.weights - aim))
        beside = self.beside(about)
        return np.asarray(beside.products(beside.row(self.n))[: self.n, : self.n])

    def _gram(self) -> Floats:
        """Inner products about the origin, from the rows themselves."""
        inner = self.basis.inner()
        if self._weights is not None:
            return self._weights @ inner @ self._weights.T
        return self._at_places(inner)

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
        distances, places = self.distances(2.0), self._distinct_places()
        if places is not None:
            known = self.basis.centred(places)
            return known.middle, known.products, distances
        middle, weights = medoid(distances), self.weights
        return middle, self.basis.products(weights - weights[middle]), distances

    def about_weighted_medoid(self, mass: Floats) -> tuple[int, Floats, Floats]:
        """As `about_medoid`, of rows that count by their mass: less than half of the mass cannot move the row.

        More than half of the rows may have less than half of the mass. So everything is about this row, and what is far
        from it depends on the mass, too.
        """
        distances, places = self.distances(2.0), self._distinct_places()
        middle = weighted.medoid(distances, mass)
        away = distances[middle]
        far = np.nonzero(away > FAR * weighted.median_of(away, mass))[0]
        products = (away[:, None] ** 2 + away[None, :] ** 2 - distances**2) / 2
        if len(far):
            if places is not None:
                lines = self.basis.accumulated(int(places[middle]), which=places[far])[:, places]
            else:  # mixed rows: where a far one points is lost, and its pull stays what Cauchy and Schwarz allow
                most = away[far][:, None] * away[None, :]
                lines = np.clip(products[far], -most, most)
            products[far], products[:, far] = lines, lines.T
        return middle, products, distances

    def distances_above_medoid(self, p: float = 2.0) -> Floats:
        """The distances between the rows, less those of the medoid where these are long: ``|x_i - x_j| - |x_m - x_j|``.

        For rules that compare sums of distances: a row at 1e20 would swallow the digits by which the other sums differ.
        In l_2, differences of distances to far rows come from inner products, exact to rounding. In other norms, a row
        1e12 times as far from the medoid as another one, and as is usual, counts as equally far from both.
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
            inner = self.about_medoid()[1]
            above[:, far] = (np.diag(inner)[:, None] - 2 * inner[:, far]) / (distances[:, far] + away[far])
        else:
            above[away > 1e12 * np.maximum(away, usual)[:, None]] = 0.0
        return np.asarray(above)

    # Points.

    def row(self, i: int | np.integer[Any], **facts: object) -> Combination:
        """One row; `at` copies it bit for bit."""
        weights = np.zeros(self.n)
        weights[i] = 1.0
        return Combination(self, weights, facts=facts)

    def mean(self, rows: Indices | None = None, **facts: object) -> Combination:
        """The mean of the rows, or of some of them."""
        if rows is None:
            return Combination(self, np.full(self.n, 1.0 / self.n), facts=facts)
        weights, which = np.zeros(self.n), np.asarray(rows, np.intp)
        weights[which] = 1.0 / len(which)
        return Combination(self, weights, facts=facts)

    def combine(self, weights: Floats, **facts: object) -> Combination:
        """The rows times weights of any sum."""
        return Combination(self, np.asarray(weights, np.float64), facts=facts)

    def columns(self, statistic: Statistic, **facts: object) -> Columns:
        """A columnwise statistic."""
        return Columns(self, statistic, facts=facts)

    def given(self, vector: Any) -> Given:
        """A flat vector from outside."""
        return Given(self, vector)

    def formula(self, function: Callable[..., Any], *parts: Point, **facts: object) -> Formula:
        """A function of points, coordinate by coordinate."""
        return Formula(self, parts, function, facts=facts)

    def at(self, point: Point) -> Any:
        """The point's coordinates, flat, in the type of one update. One row is a copy, bit for bit."""
        return evaluate(point)

    def matrix(self) -> Any:
        """All rows as one new (n, d) array: for plain callables only, since it takes the memory of all updates."""
        blocks = [self.source.block(start, stop) for start, stop in self.source.runs()]
        matrix, group = self.space.matrix(blocks), self.reader.group
        return matrix if group is None else group.whole(matrix)
