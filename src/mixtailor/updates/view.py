"""What `Updates` are made of: rows of a basis, lazy views of them, and the points that rules describe results by."""

from abc import ABC
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self, SupportsBytes, TypeAlias, TypeVar, final

import numpy as np

from mixtailor._types import Array, Floats, Integers
from mixtailor.intake.arrival import Arrival
from mixtailor.kernels.columnwise import Statistic
from mixtailor.kernels.sampling import draw
from mixtailor.storage.layers import Matrix
from mixtailor.storage.rows import Rows
from mixtailor.updates.blocks import Beside, Blocks, Differences, Mixed, Points, Taken
from mixtailor.updates.geometry import Basis
from mixtailor.updates.numbers import Numbers, Unseen
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point
from mixtailor.updates.reader import Reader, evaluate

__all__ = ["Call", "View"]

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
    views : array, optional
        What a memory says: inner products of the updates, V x n x n, one matrix for each way to look at them.
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

    @random.setter
    def random(self, random: np.random.Generator) -> None:
        self._random = random

    def seeing(self, views: Floats) -> "Call":
        """The same randomness, with what a memory says."""
        return Call(self._random, views=views)


class View(ABC):  # noqa: B024  # abstract in that it has no queries: `Updates` is the one final class
    """n rows of d coordinates, as combinations of the rows of a basis, by index or by weights.

    Views of one basis share what is known of it. `take`, `mix`, `beside` and `sample` copy nothing.
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
        known: dict[float, Floats] | None = None,
    ) -> None:
        self.reader, self.space = reader, reader.space
        if basis is not None:
            self.basis = basis
        self.source, self.call, self.received = source, call, reader.received
        rows = places if weights is None else weights
        self.n, self.d = source.n if rows is None else len(rows), reader.storage.d
        self._places, self._weights = places, weights  # rows of the basis, or weights on them; both None: all of them
        self._known: dict[float, Floats] = known or {}  # distances between mixed rows
        self._remembered: tuple[Call, dict[object, Any]] = (call, {})

    @classmethod
    def of(cls, storage: Rows, call: Call | None = None) -> Self:
        """The rows of a storage."""
        return cls.arrived(Arrival.of(storage), call)

    @classmethod
    def arrived(cls, arrival: Arrival, call: Call | None = None) -> Self:
        """The updates of an arrival whose structure is sound."""
        return cls._of_reader(Reader(arrival), call or Call())

    @classmethod
    def seen(cls, numbers: Numbers, call: Call | None = None) -> Self:
        """Updates of which these numbers alone are known.

        Examples
        --------
        >>> from mixtailor import Medoid
        >>> from mixtailor.updates import Updates
        >>> numbers = Numbers({2.0: [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]})
        >>> Medoid().decide(Updates.seen(numbers)).weights
        array([0., 1., 0.])
        """
        updates = cls.of(Unseen(numbers.n), call)
        updates.basis.take_numbers(numbers)
        return updates

    @classmethod
    def _of_reader(cls, reader: Reader, call: Call) -> Self:
        if not reader.arrival.base:
            return cls(reader, None, reader, call)
        return cls(reader, None, Differences(reader), call, places=np.arange(reader.n - 1))

    # What this view is made of.

    @cached_property
    def basis(self) -> Basis:
        """The rows that these are combinations of. Made on first use: columnwise rules need none."""
        return Basis(self.reader, self.reader, base=self.reader.n - 1 if self.reader.arrival.base else None)

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

    def only(self, rows: Sequence[int]) -> Self:
        """These of the received updates, as if the others had never arrived."""
        return type(self)._of_reader(self.reader.only(rows), self.call)

    def _as_received(self) -> bool:
        """Whether these are the received updates, all of them."""
        return self.source is self.reader or isinstance(self.source, Differences)

    @property
    def largest(self) -> float:
        """The largest number that every coordinate of a result can hold."""
        return self.reader.storage.largest

    @property
    def everything(self) -> Self:
        """All stored rows, whatever this view has made of them."""
        return type(self)._of_reader(self.reader, self.call)

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
        over = [self.over_received(row) for row in np.eye(self.n)]
        known = [row for row in over if row is not None]
        if len(known) < len(over):
            return None  # rows that depend on more than the received updates
        weights = np.stack(known)
        return np.asarray(weights @ views @ weights.T)

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

    def take(self, rows: Indices, *, shared: bool = False) -> Self:
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
            return type(self)(
                self.reader, self.basis, Taken(self.reader, self.source, chosen), self.call, places=places
            )
        pairs = np.ix_(chosen, chosen)
        known = {p: between[pairs] for p, between in self._known.items()}
        source: Blocks = Taken(self.reader, self.source, chosen)
        if not known and isinstance(self.source, Mixed):
            source = Mixed(self.reader, self.source.source, self.source.mixing[chosen])
        return type(self)(self.reader, self.basis, source, self.call, weights=self._weights[chosen], known=known)

    def mix(self, weights: Floats) -> Self:
        """Rows that are combinations of these: one for each row of `weights` (m x n)."""
        mixing = np.asarray(weights, np.float64)
        source, made = self.source, mixing
        own = source is self.basis.source
        if not own and isinstance(source, (Mixed, Taken)) and not isinstance(source.source, Beside):
            inner = source.mixing if isinstance(source, Mixed) else np.eye(source.source.n)[source.rows]
            source, made = source.source, mixing @ inner
        over = mixing if self._places is None and self._weights is None else mixing @ self.weights
        made = made.view()
        made.setflags(write=False)  # the same for all blocks, and known to be
        return type(self)(self.reader, self.basis, Mixed(self.reader, source, made), self.call, weights=over)

    def beside(self, *points: Point, rounded: bool = False, held: bool = False) -> Self:
        """These rows and, after them, the points; `rounded` to the type of the rows, as a server would receive them."""
        if not points:
            return self
        source = Beside(self, points, rounded=rounded, held=held)
        found = self._shared_basis(points)
        if found is None:
            return type(self)(self.reader, Basis(self.reader, source), source, self.call)
        basis, rows = found
        over = np.vstack([rows, *(point.updates.over_basis(point.weights) for point in points)])  # type: ignore[attr-defined]  # combinations
        return type(self)(self.reader, basis, source, self.call, weights=over)

    def rows_of(self, points: Sequence[Point], parts: Sequence[Integers]) -> Self:
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
        return type(self)(self.reader, Basis(self.reader, source, made_of=made_of), source, self.call)

    def basis_difference(self, weights: Floats, other: Combination) -> Combination:
        """The combination of these rows by `weights`, less another of the same basis."""
        apart = self.over_basis(weights) - other.updates.over_basis(other.weights)
        return type(self)(self.reader, self.basis, self.basis.source, self.call).combine(apart)

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

    def sample(self, k: int) -> Self:
        """The rows on k coordinates drawn without replacement; all of them where d is no larger."""
        if k >= self.d:
            return self
        return self.derived(self.source.coordinates(draw(self.random, self.d, k)), self.call)

    def derived(self, rows: Array, call: Call) -> Self:
        """Rows that were computed from these, a matrix. Faults are looked for and named here: of the rows received."""
        self.reader.suspect(rows)
        found = type(self).of(Matrix.of(rows), call)
        found.reader.examined = True
        return found

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
        return self.reader.group.whole(self.space.matrix(blocks))
