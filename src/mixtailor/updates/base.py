"""`Updates`: what the workers sent, as the few numbers between the rows that a rule decides from."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, SupportsBytes, TypeAlias, TypeVar, overload

import numpy as np

from mixtailor.kernels.sampling import draw
from mixtailor.updates import geometry
from mixtailor.updates.engine import Engine, Floats, Integers
from mixtailor.updates.passes import Passes
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point, only_row
from mixtailor.updates.statistics import Statistic

__all__ = ["Call", "Faulty", "Rows", "Updates"]

Rows: TypeAlias = Sequence[int] | Integers
T = TypeVar("T")


class Faulty(Exception):  # a signal between a home and the rule's caller, not an error a user meets
    """Received rows prove a fault, most often by non-finite entries; the caller takes them out and starts again."""

    def __init__(self, rows: Sequence[int], reason: str = "not finite") -> None:
        super().__init__(f"rows {list(rows)} are {reason}")
        self.rows = tuple(int(row) for row in rows)
        self.reason = reason


class Call:
    """What belongs to one call of a rule: its randomness and its side knowledge.

    Parameters
    ----------
    random : Generator or bytes, optional
        The randomness, or the key it comes from; by default the operating system's.
    reference : vector, optional
        What the caller trusts, or had last round, flat.
    honest : tuple of int, optional
        The honest rows.
    """

    def __init__(
        self,
        random: np.random.Generator | SupportsBytes | None = None,
        reference: Any = None,
        honest: tuple[int, ...] | None = None,
    ) -> None:
        self._random, self.reference, self.honest = random, reference, honest

    @property
    def random(self) -> np.random.Generator:
        """Made when it is first asked for: most rules draw nothing, and a generator costs as much as a median."""
        if not isinstance(self._random, np.random.Generator):
            key = None if self._random is None else int.from_bytes(bytes(self._random), "big")
            self._random = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(key)))
        return self._random

    @random.setter
    def random(self, random: np.random.Generator) -> None:
        self._random = random


class Updates(Passes):
    """n rows of d coordinates, of which a rule sees only the numbers between them.

    Laws: all answers are float64 numpy arrays of size n or n x n that the caller must not write to; rows are never
    written to; `take`, `mix` and `beside` read nothing and copy nothing; a point is computed by `at` alone.

    Attributes
    ----------
    n, d : int
        Rows and coordinates.
    home : Home
        The received rows behind this view.
    root, weights : Updates, array
        The rows, as combinations (n x root.n) of the rows of the root, whose p = 2 geometry they share.
    """

    n: int
    d: int

    def __init__(self, n: int, d: int, engine: Engine[Any], call: Call) -> None:
        self.n, self.d, self.engine, self.call = n, d, engine, call
        self._distances: dict[float, Floats] = {}
        self._products: dict[int, Floats] = {}
        self._norms: dict[float, Floats] = {}
        self._centred: dict[bytes, geometry.Centred] = {}
        self._remembered: tuple[Call, dict[object, Any]] = (call, {})

    def over_home(self) -> Floats | None:
        """The weights that make these rows of the home's; None where they are made of something else, too."""
        return self.weights if self.root is self.home else None

    def _settled(self) -> None:
        """See to it that the root is the one whose geometry has the digits."""

    def _by_parts(self) -> bool:
        """Whether far rows may cancel inside these: combinations are then made of them, and not of the root's rows."""
        return False

    def _rows_of_root(self) -> Integers | None:
        """Which rows of the root these are, no two the same; None where they are no rows of it."""
        return np.arange(self.n) if self.root is self else None

    # What a home or a view implements.

    @property
    @abstractmethod
    def root(self) -> "Updates": ...

    @property
    @abstractmethod
    def weights(self) -> Floats: ...

    def _subset(self, rows: Integers) -> "Updates":
        from mixtailor.updates.views import Taken

        return Taken(self, rows)

    # The call.

    @property
    def random(self) -> np.random.Generator:
        """The randomness of this call: the same again when the rule starts again without faulty rows."""
        return self.call.random

    @property
    def reference(self) -> Point | None:
        """What the caller trusts, or had last round."""
        return None if self.call.reference is None else Given(self, self.call.reference)

    def remember(self, key: object, compute: Callable[[], T]) -> T:
        """What one rule found in this call and others of a pool will ask for; a key without a hash is not kept."""
        if self._remembered[0] is not self.call:  # another call has other randomness
            self._remembered = (self.call, {})
        known = self._remembered[1]
        if not _hashable(key):
            return compute()
        if key not in known:
            known[key] = compute()
        return known[key]  # type: ignore[no-any-return]  # what this key's compute gave

    # Views.

    def take(self, rows: Rows) -> "Updates":
        """These rows only. What is known of their distances stays known."""
        return self._subset(np.asarray(rows, np.intp))

    def mix(self, weights: Floats) -> "Updates":
        """Rows that are combinations of these: one for each row of `weights` (m x n)."""
        from mixtailor.updates.views import Mixed

        return Mixed(self, np.asarray(weights, np.float64))

    def beside(self, *points: Point) -> "Updates":
        """These rows and, after them, the points."""
        from mixtailor.updates.views import Beside

        return Beside(self, points) if points else self

    def sample(self, k: int) -> "Updates":
        """The rows on k coordinates drawn without replacement; all of them where d is no larger."""
        from mixtailor.updates.dense import Dense

        if k >= self.d:
            return self
        sample = Dense.of(self.coordinates(draw(self.random, self.d, k)), self.call)
        if not sample.engine.finite_rows(sample.block(0, k)).all():
            self.home.examine()  # names the rows as received, which the sample does not know
        return sample

    # Points.

    def row(self, i: int | np.integer[Any], **facts: object) -> Combination:
        """One row; `at` copies it bit for bit."""
        weights = np.zeros(self.n)
        weights[i] = 1.0
        return Combination(self, weights, facts=facts)

    def mean(self, rows: Rows | None = None, **facts: object) -> Combination:
        """The mean of the rows, or of some of them."""
        weights = np.zeros(self.n)
        which = np.arange(self.n) if rows is None else np.asarray(rows, np.intp)
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

    # Questions.

    def norms(self, p: float = 2.0) -> Floats:
        """The l_p norms of the rows, n numbers."""
        if p not in self._norms:
            self._norms[p] = self._to_points(None, p)
        return self._norms[p]

    @overload
    def distances(self, p: float = 2.0) -> Floats: ...
    @overload
    def distances(self, p: tuple[float, ...]) -> tuple[Floats, ...]: ...
    def distances(self, p: float | tuple[float, ...] = 2.0) -> Floats | tuple[Floats, ...]:
        """The l_p distances between the rows, n x n; remembered. A tuple of norms costs one reading."""
        wanted = tuple(float(q) for q in (p if isinstance(p, tuple) else (p,)))
        missing = tuple(q for q in dict.fromkeys(wanted) if q not in self._distances)
        if missing:
            self._distances.update(self._measure(missing))
        answers = tuple(self._distances[q] for q in wanted)
        return answers if isinstance(p, tuple) else answers[0]

    @overload
    def distances_to(self, point: Point, p: float = 2.0) -> Floats: ...
    @overload
    def distances_to(self, point: Point, p: tuple[float, ...]) -> tuple[Floats, ...]: ...
    def distances_to(self, point: Point, p: float | tuple[float, ...] = 2.0) -> Floats | tuple[Floats, ...]:
        """The l_p distances of the rows to a point, n numbers, without computing the point.

        A tuple of norms costs one reading, and one more for each norm whose sums over- or underflow.
        """
        if isinstance(p, tuple):
            return self._in_norms(point, p)
        if p == 2.0:
            self._settled()
        if p == 2.0 and isinstance(point, Combination) and point.updates.root is self.root:
            aim = point.weights @ point.updates.weights
            if abs(aim.sum() - 1.0) < 1e-12 and np.allclose(self.weights.sum(axis=1), 1.0, rtol=0, atol=1e-12):
                known = geometry.distances_to(self.root, self.weights, aim)
                if known is not None:
                    return known
        return self._to_points(point, float(p))

    def known_distances_to(self, aim: Floats) -> Floats | None:
        """The distances of the rows to the combination ``aim @ rows``, from what was asked before; None where unknown.

        To one row, in any norm that was asked for; to other combinations with sum one, in l_2, and only to about the
        rounding of the squared distances of rows that take part. Never another reading, whatever the rows contain.
        """
        return geometry.known_distances_to(self._distances, aim)

    def distances_to_each(self, points: Sequence[Combination], norms: Sequence[float]) -> list[Floats]:
        """The distances of the rows to several combinations of them, each in its own norm, by one reading."""
        if len(points) == 1:
            return [self.distances_to(points[0], norms[0])]
        return self._to_combinations(points, norms)

    def dots(self, point: Point) -> Floats:
        """The inner products of the rows with a point, n numbers."""
        return self._sum(
            lambda start, stop, block: self.engine.point_dots(block, self.values(point, start, stop)), size=self.n
        )

    def dot(self, first: Point, second: Point) -> float:
        """The inner product of two points: does the answer still descend?"""
        total = self._total(
            lambda start, stop: self.engine.dot(self.values(first, start, stop), self.values(second, start, stop))
        )
        if not np.isfinite(total):
            self.home.examine()
        return float(total)

    def inner(self, *points: Point) -> Floats:
        """The inner products of some points, k x k: in n-space where their geometry is known, else by one pass."""
        root = points[0].updates.root
        if 2.0 in root._distances and all(isinstance(p, Combination) and p.updates.root is root for p in points):
            rows = [p.weights @ p.updates.weights for p in points if isinstance(p, Combination)]
            return geometry.products(root, np.stack(rows))
        first, second = np.triu_indices(len(points))

        def question(start: int, stop: int) -> Any:
            values = [self.values(point, start, stop) for point in points]
            return [self.engine.dot(values[i], values[j]) for i, j in zip(first, second, strict=True)]

        total = self._total(question, size=len(first))
        if not np.isfinite(total).all():
            self.home.examine()
        answer = np.empty((len(points), len(points)))
        answer[first, second] = answer[second, first] = total
        return answer

    def products(self, about: Point | None = None) -> Floats:
        """The inner products of ``row - about``, n x n; about None is the origin."""
        if about is None:
            if -1 not in self._products:
                self._products[-1] = self._gram_about_origin()
            return self._products[-1]
        self._settled()
        if isinstance(about, Combination) and about.updates.root is self.root:
            rows, row = self._rows_of_root(), only_row(about.weights)
            if rows is not None and about.updates is self and row is not None:
                known = geometry.products_about(self.root, rows, row)
                if known is not None:
                    return known
            aim = about.weights @ about.updates.weights
            return geometry.products(self.root, self.weights - aim)
        beside = self.beside(about)
        return beside.products(beside.row(self.n))[: self.n, : self.n]

    def about_medoid(self) -> tuple[int, Floats, Floats]:
        """The row whose floor(n/2)-th nearest other row is closest, the inner products of the rows about it, and their
        distances: in one unit, which is 1 unless float64 cannot hold squares of the distances.

        Fewer than half of the rows cannot move it, so that near rows keep their digits.
        """
        self._settled()
        distances, rows = self.distances(2.0), self._rows_of_root()
        if rows is not None:
            middle, products, unit = geometry.rows_about_medoid(self.root, rows)
        else:
            middle, weights = geometry.medoid(distances), self.weights
            products, unit = geometry.products_in_units(self.root, weights - weights[middle], distances[middle])
        if unit != 1.0:
            with np.errstate(over="ignore"):  # as far away as that, a row is out of reach
                distances = distances / unit
        return middle, products, distances

    def matrix(self) -> Any:
        """All rows as one new (n, d) array: for plain callables only, since it takes the memory of all updates."""
        return self.home.assemble([self.engine.matrix(self.block(start, stop)) for start, stop in self.runs()])

    def at(self, point: Point) -> Any:
        """The point's coordinates, flat, in the rows' type. One row is a copy, bit for bit."""
        return point.updates.home.evaluate(point)

    def _gram_about_origin(self) -> Floats:
        if self.root is not self:
            return self.weights @ self.root.products() @ self.weights.T
        return self.gram(-1, np.ones(self.n), origin=False)


def _hashable(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
