"""`Updates`: n updates as a rule sees them, that is, as the few numbers between them that a rule decides from."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsBytes, TypeAlias, TypeVar, final, overload

import numpy as np

from mixtailor._types import Array, Floats, Integers
from mixtailor.intake.arrival import Arrival
from mixtailor.kernels.columnwise import Statistic
from mixtailor.kernels.sampling import draw
from mixtailor.kernels.selection import distinct, median, medoid
from mixtailor.storage.group import ALONE, Group
from mixtailor.storage.matrix import Matrix
from mixtailor.storage.rows import Rows
from mixtailor.updates.basis import Basis
from mixtailor.updates.blocks import Beside, Blocks, Differences, Mixed, Taken
from mixtailor.updates.evaluation import evaluate, values
from mixtailor.updates.geometry import FAR, bounded
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point, only_row
from mixtailor.updates.reader import Reader

__all__ = ["Call", "Updates"]

Indices: TypeAlias = Sequence[int] | Integers
T = TypeVar("T")


@final
class Call:
    """The randomness of a call and what its caller knows.

    Parameters
    ----------
    random : Generator or bytes, optional
        The randomness, or the key it comes from; by default the operating system's.
    reference : vector, optional
        What the caller trusts, or had last round, flat.
    honest : tuple of int, optional
        The honest updates.
    """

    __slots__ = ("_random", "honest", "reference")

    def __init__(
        self,
        random: np.random.Generator | SupportsBytes | None = None,
        reference: Any = None,
        honest: tuple[int, ...] | None = None,
    ) -> None:
        self._random, self.reference, self.honest = random, reference, honest

    @property
    def random(self) -> np.random.Generator:
        """Created on first use: most rules draw nothing, and a generator costs as much as a median."""
        if not isinstance(self._random, np.random.Generator):
            key = None if self._random is None else int.from_bytes(bytes(self._random), "big")
            self._random = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(key)))
        return self._random

    @random.setter
    def random(self, random: np.random.Generator) -> None:
        self._random = random


@final
class Updates:
    """n rows of d coordinates, of which a rule sees only the numbers between them.

    Laws: queries return float64 numpy arrays of size n or n x n that the caller must not write to; rows are never
    written to; `take`, `mix`, `beside` and `sample` are views, which copy nothing; a point is computed by `at` alone.
    Distances between rows can be squared and summed. They are in a unit, which is 1 unless float64 cannot hold their
    squares; inner products are in squares of that unit.

    The rows are combinations of the rows of a basis, by index or by weights. Views of one basis share what is known of
    it. Use `Updates.of` to make one.
    """

    def __init__(
        self,
        reader: Reader,
        basis: Basis | None,
        source: Blocks,
        call: Call,
        *,
        places: Integers | None = None,
        weights: Floats | None = None,
        known: dict[float, tuple[Floats, float]] | None = None,
    ) -> None:
        self.reader, self.space, self._basis = reader, reader.space, basis
        self.source, self.call, self.received = source, call, reader.received
        self.n, self.d = source.n, reader.storage.d
        self._places, self._weights = places, weights  # rows of the basis, or weights on them; both None: all of them
        self._known: dict[float, tuple[Floats, float]] = known or {}  # distances between mixed rows, and their unit
        self._remembered: tuple[Call, dict[object, Any]] = (call, {})

    @classmethod
    def of(
        cls,
        storage: Rows,
        call: Call | None = None,
        *,
        received: Sequence[int] | None = None,
        base: bool = False,
        scales: Floats | None = None,
        group: Group = ALONE,
        watch: Callable[[float], None] | None = None,
    ) -> "Updates":
        """The rows of a storage.

        Parameters
        ----------
        storage : Rows
        call : Call, optional
        received : sequence of int, optional
            The index of each row among the updates as received.
        base : bool
            Whether the last row of the storage is a base that all others are differences to.
        scales : array, optional
            With a base: a factor for each difference.
        group : Group
            The processes that share the call.
        watch : callable, optional
            Is told after each range which share of all coordinates was read.
        """
        rows = tuple(range(storage.n - base)) if received is None else tuple(received)
        return cls._stored(Reader(storage, rows, group, watch, base=base, scales=scales), call or Call())

    @classmethod
    def arrived(cls, arrival: Arrival, call: Call | None = None) -> "Updates":
        """The updates of an arrival whose structure is sound."""
        reader = Reader(
            arrival.storage,
            arrival.received,
            arrival.group,
            arrival.watch,
            base=arrival.base,
            scales=arrival.scales,
        )
        return cls._stored(reader, call or Call())

    @classmethod
    def _stored(cls, reader: Reader, call: Call) -> "Updates":
        if not reader.base:
            return cls(reader, None, reader, call)
        n, rows = reader.n - 1, Differences(reader)
        if reader.scales is None:
            return cls(reader, None, rows, call, places=np.arange(n))
        return cls(reader, None, rows, call, weights=np.eye(n, n + 1) * np.append(reader.scales, 0.0))

    # What this view is made of.

    @property
    def basis(self) -> Basis:
        """The rows that these are combinations of. Made on first use: columnwise rules need none."""
        if self._basis is None:
            self._basis = Basis(self.reader, self.reader, base=self.reader.n - 1 if self.reader.base else None)
        return self._basis

    @property
    def weights(self) -> Floats:
        """The weights that make these rows of the rows of the basis."""
        if self._weights is not None:
            return self._weights
        eye = np.eye(self.basis.n)
        return eye if self._places is None else eye[self._places]

    def over_basis(self, weights: Floats) -> Floats:
        """Weights on these rows as weights on the rows of the basis, the base included."""
        if self._weights is not None:
            found: Floats = weights @ self._weights
        elif self._places is not None:
            found = np.zeros(self.basis.n)
            np.add.at(found, self._places, weights)
        else:
            return weights
        base = self.basis.base
        if base is not None:
            found = found.copy()
            found[base] -= found.sum()
        return found

    def over_received(self, weights: Floats) -> Floats | None:
        """Weights on these rows as weights on the received updates; None if the rows depend on anything else."""
        return self.basis.over_received(self.over_basis(weights))

    def places(self) -> tuple[int, ...] | None:
        """Which of the stored rows these are; None where they are mixed or stand beside others."""
        if not self.basis.stored or self._weights is not None:
            return None
        return tuple(range(self.n)) if self._places is None else tuple(self._places.tolist())

    def block(self, start: int, stop: int) -> Any:
        """All rows on a range of coordinates, in the form that the space takes."""
        return self.source.block(start, stop)

    def coordinates(self, which: Integers) -> Array:
        """Single coordinates of all rows, in ascending order: a small numpy matrix."""
        return self.source.coordinates(which)

    def only(self, rows: Sequence[int]) -> "Updates":
        """These of the received updates, as if the others had never arrived."""
        return Updates._stored(self.reader.only(rows), self.call)

    def _as_received(self) -> bool:
        """Whether these are the received updates, all of them."""
        return self.source is self.reader or isinstance(self.source, Differences)

    def examine(self) -> None:
        """Search the stored rows for non-finite entries."""
        self.reader.examine()

    def check_row(self, row: int) -> None:
        """Search one stored row for non-finite entries, unless a pass has read it."""
        if not self.basis.lengths and not self.reader.examined:
            self.reader.only([row]).examine()

    @property
    def largest(self) -> float:
        """The largest number that every coordinate of a result can hold."""
        return self.reader.storage.largest

    @property
    def everything(self) -> "Updates":
        """All stored rows, whatever this view has made of them."""
        return Updates._stored(self.reader, self.call)

    # The call.

    @property
    def random(self) -> np.random.Generator:
        """The randomness of this call: the same again when the rule starts again without faulty updates."""
        return self.call.random

    @property
    def reference(self) -> Point | None:
        """What the caller trusts, or had last round."""
        return None if self.call.reference is None else Given(self, self.call.reference)

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
        if not shared and self._as_received() and not (self.basis.lengths and unique):
            # Rows that are not taken need not be read.
            return self.only([int(row) for row in chosen])
        if self._weights is None:
            places = chosen if self._places is None else self._places[chosen]
            return Updates(self.reader, self.basis, Taken(self.reader, self.source, chosen), self.call, places=places)
        pairs = np.ix_(chosen, chosen)
        known = {p: (between[pairs], unit) for p, (between, unit) in self._known.items()}
        source: Blocks = Taken(self.reader, self.source, chosen)
        if not known and isinstance(self.source, Mixed):
            source = Mixed(self.reader, self.source.source, self.source.mixing[chosen])
        return Updates(self.reader, self.basis, source, self.call, weights=self._weights[chosen], known=known)

    def mix(self, weights: Floats) -> "Updates":
        """Rows that are combinations of these: one for each row of `weights` (m x n)."""
        mixing = np.asarray(weights, np.float64)
        source = self.source
        nested = isinstance(source, (Mixed, Taken)) and source is not self.basis.source
        if nested and not isinstance(source.source, Beside):
            inner = source.mixing if isinstance(source, Mixed) else np.eye(source.source.n)[source.rows]
            made: Blocks = Mixed(self.reader, source.source, mixing @ inner)
        else:
            made = Mixed(self.reader, source, mixing)
        over = mixing if self._places is None and self._weights is None else mixing @ self.weights
        return Updates(self.reader, self.basis, made, self.call, weights=over)

    def beside(self, *points: Point, rounded: bool = False, held: bool = False) -> "Updates":
        """These rows and, after them, the points; `rounded` to the type of the rows, as a server would receive them."""
        if not points:
            return self
        source = Beside(self.reader, self.source, points, rounded=rounded, held=held)
        found = self._shared_basis(points)
        if found is None:
            basis = Basis(self.reader, source, below=self, points=points)
            return Updates(self.reader, basis, source, self.call)
        basis, rows = found
        over = np.vstack([rows, *(point.updates.over_basis_plain(point.weights) for point in points)])  # type: ignore[attr-defined]  # combinations
        return Updates(self.reader, basis, source, self.call, weights=over)

    def over_basis_plain(self, weights: Floats) -> Floats:
        """Weights on these rows as weights on the rows of the basis, without the base."""
        found: Floats = weights if self._places is None and self._weights is None else weights @ self.weights
        return found

    def basis_difference(self, weights: Floats, other: Combination) -> Combination:
        """The combination of these rows by `weights`, less another of the same basis."""
        apart = self.over_basis_plain(weights) - other.updates.over_basis_plain(other.weights)
        return Updates(self.reader, self.basis, self.basis.source, self.call).combine(apart)

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
        found = self.source.coordinates(draw(self.random, self.d, k))
        if not np.isfinite(found).all():
            self.reader.examine()  # names the rows as received, which the sample does not know
        return Updates.of(Matrix.of(found), self.call)

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
        blocks = [self.space.matrix(self.block(start, stop)) for start, stop in self.source.runs()]
        return self.reader.group.whole(self.space.joined(blocks))

    # Queries.

    @overload
    def distances(self, p: float = 2.0) -> Floats: ...
    @overload
    def distances(self, p: tuple[float, ...]) -> tuple[Floats, ...]: ...
    def distances(self, p: float | tuple[float, ...] = 2.0) -> Floats | tuple[Floats, ...]:
        """The l_p distances between the rows, n x n, in their unit; remembered. A tuple of norms costs one reading."""
        norms = p if isinstance(p, tuple) else (p,)
        if self._weights is not None:
            self._measure_mixed(norms)
        if self._weights is None:
            found = self.basis.measure(norms)
            if self._places is not None:
                rows = np.ix_(self._places, self._places)
                found = [between[rows] for between in found]
        else:
            found = [self._known[q][0] for q in norms]
        return tuple(found) if isinstance(p, tuple) else found[0]

    def lengths(self, norms: Sequence[float]) -> list[Floats]:
        """The l_p distances between the rows in the unit 1, whether or not they can be squared."""
        found = self.distances(tuple(norms))
        mixed = self._weights is not None
        units = [self._known[p][1] if mixed else self.basis.unit(p) for p in norms]
        return [between if unit == 1.0 else between * unit for between, unit in zip(found, units, strict=True)]

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
                self._known[2.0] = between, 1.0
                missing.remove(2.0)
        if not missing:
            return
        own, rows = self._own_basis()
        own.measure(missing)
        if 2.0 in missing:
            own.measure([p for p in self._known if p != 2.0])
            self._basis, self.source, self._weights, self._known = own, own.source, None, {}
            self._places = None
            if rows is not None:
                self._places, self.source = rows, Taken(self.reader, own.source, rows)
            return
        for p in missing:
            between = own.distances(p)
            self._known[p] = (between if rows is None else between[np.ix_(rows, rows)]), own.unit(p)

    def _own_basis(self) -> tuple[Basis, Integers | None]:
        """These rows as a basis. Nearest-neighbour mixing makes the same row many times: it is measured once."""
        source, weights = self.source, self._weights
        assert weights is not None
        if isinstance(source, Mixed):
            source.made = True
            places, same = distinct(source.mixing)
            if len(places) < self.n:
                few = Mixed(self.reader, source.source, source.mixing[places])
                few.made = True
                return Basis(self.reader, few, made_of=(self.basis, weights[places])), same
        return Basis(self.reader, source, made_of=(self.basis, weights)), None

    def norms(self, p: float = 2.0) -> Floats:
        """The l_p norms of the rows, n numbers. A norm that float64 cannot square is infinite, or zero."""
        if self._weights is None:
            found = bounded(self.basis.norms(p))
            return found[: self.n] if self._places is None else found[self._places]
        return self._lengths_to(None, (float(p),))[0]

    @overload
    def distances_to(self, point: Point, p: float = 2.0) -> Floats: ...
    @overload
    def distances_to(self, point: Point, p: tuple[float, ...]) -> tuple[Floats, ...]: ...
    def distances_to(self, point: Point, p: float | tuple[float, ...] = 2.0) -> Floats | tuple[Floats, ...]:
        """The l_p distances of the rows to a point, n numbers, without computing the point. One reading for all norms.

        A distance that float64 cannot square is infinite, or zero.
        """
        if isinstance(p, tuple):
            return tuple(self._lengths_to(point, p))
        if p == 2.0:
            self._settle()
            if isinstance(point, Combination) and point.updates.basis is self.basis:
                aim = point.updates.over_basis_plain(point.weights)
                if abs(aim.sum() - 1.0) < 1e-12 and np.allclose(self.weights.sum(axis=1), 1.0, rtol=0, atol=1e-12):
                    return bounded(self.basis.geometry.distances_to(self.weights, aim) * self.basis.unit(2.0))
        if isinstance(point, Combination) and point.updates is self:
            return self.distances_to_each([point], [float(p)])[0]
        return self._lengths_to(point, (float(p),))[0]

    def _settle(self) -> None:
        """Make sure that the basis is the one whose geometry has the digits of these rows."""
        if self._weights is not None:
            self.distances(2.0)

    def _lengths_to(self, point: Point | None, norms: tuple[float, ...]) -> Floats:
        powers, space = np.array(norms), self.space

        def query(start: int, stop: int) -> Any:
            aim = space.zeros(stop - start) if point is None else values(point, start, stop)
            return space.point_lengths(self.block(start, stop), aim, powers)

        raw = np.zeros(len(norms), np.bool_)
        return bounded(self.reader.lengths(query, self.source.runs(), powers, raw, self.n))

    def distances_to_each(self, points: Sequence[Combination], norms: Sequence[float]) -> list[Floats]:
        """The distances of the rows to several combinations of them, each in its own norm, by one reading."""
        powers, space = np.array(norms, np.float64), self.space

        def query(start: int, stop: int) -> Any:
            block = self.block(start, stop)
            pairs = zip(points, norms, strict=True)
            return space.stack([space.combination_lengths(block, point.weights, float(p)) for point, p in pairs])

        raw = np.zeros(len(powers), np.bool_)
        return list(bounded(self.reader.lengths(query, self.source.runs(), powers, raw, self.n)))

    def known_distances_to(self, weights: Floats) -> Floats | None:
        r"""The distances of the stored rows to a combination of them, from what was asked before; None where unknown.

        To one row, in any norm that was asked for; to others with sum one in l_2, up to the rounding of squares:

        .. math:: \lVert x_i - \sum_j w_j x_j \rVert^2 = \sum_j w_j D_{ij} - \tfrac12 w^T D w

        with squared distances D. Rows of weight zero do not take part, so a far one costs the others no digits.
        """
        known, n = self.basis.lengths, len(self.received)
        if not self.basis.stored or not known:
            return None
        row = only_row(weights)
        if row is not None:
            return next(iter(known.values()))[row, :n]
        used = np.nonzero(weights)[0]
        if 2.0 not in known or not len(used) or abs(weights.sum() - 1.0) > 1e-9:
            return None
        share, unit = weights[used], self.basis.unit(2.0)
        squares = self.basis.distances(2.0)[:n, used] ** 2
        found: Floats = np.sqrt(np.maximum(squares @ share - share @ squares[used] @ share / 2, 0.0)) * unit
        return found

    def dots(self, point: Point) -> Floats:
        """The inner products of the rows with a point, n numbers."""

        def query(start: int, stop: int) -> Any:
            return self.space.point_dots(self.block(start, stop), values(point, start, stop))

        return self.reader.total(query, self.source.runs(), self.n)

    def dot(self, first: Point, second: Point) -> float:
        """The inner product of two points."""
        return float(self.inner(first, second)[0, 1])

    def inner(self, *points: Point) -> Floats:
        """The inner products of some points, k x k: in n-space where their geometry is known, else by one pass."""
        basis = points[0].updates.basis
        if 2.0 in basis.lengths and all(isinstance(p, Combination) and p.updates.basis is basis for p in points):
            rows = [p.updates.over_basis_plain(p.weights) for p in points if isinstance(p, Combination)]
            unit = basis.unit(2.0)
            known: Floats = basis.geometry.products(np.stack(rows)) * (unit * unit)
            return known
        first, second = np.triu_indices(len(points))

        def query(start: int, stop: int) -> Any:
            found = [values(point, start, stop) for point in points]
            return self.space.stack([self.space.dot(found[i], found[j]) for i, j in zip(first, second, strict=True)])

        total = self.reader.total(query, self.source.runs(), len(first))
        products = np.empty((len(points), len(points)))
        products[first, second] = products[second, first] = total
        return products

    def products(self, about: Point | None = None) -> Floats:
        """The inner products of ``row - about``, n x n, in the unit 1; about None is the origin."""
        if about is None and self.basis.base is None:
            return self._gram()
        products = self._products(about)
        unit = self.basis.unit(2.0)
        return products if unit == 1.0 else products * unit * unit

    def _products(self, about: Point | None) -> Floats:
        """The inner products of ``row - about`` in squares of the unit."""
        if about is None:
            return self.basis.geometry.products(self.weights)
        self._settle()
        if isinstance(about, Combination) and about.updates.basis is self.basis:
            row, places = only_row(about.weights), self._distinct_places()
            if about.updates is self and row is not None and places is not None:
                known = self.basis.geometry.centred(places)
                if known.middle == row:
                    return known.products
            return self.basis.geometry.products(self.weights - about.updates.over_basis_plain(about.weights))
        beside = self.beside(about)
        return beside.products(beside.row(self.n))[: self.n, : self.n]

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
        distances between the rows, in their unit.

        Fewer than half of the rows cannot move it, so that near rows keep their digits.
        """
        self._settle()
        distances, places = self.distances(2.0), self._distinct_places()
        if places is not None:
            known = self.basis.geometry.centred(places)
            return known.middle, known.products, distances
        middle, weights = medoid(distances), self.weights
        return middle, self.basis.geometry.products(weights - weights[middle]), distances

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
            inner = self._products(self.row(middle))
            above[:, far] = (np.diag(inner)[:, None] - 2 * inner[:, far]) / (distances[:, far] + away[far])
        else:
            lost = away > 1e12 * usual
            above[np.ix_(~lost, lost)] = 0.0
        return above
