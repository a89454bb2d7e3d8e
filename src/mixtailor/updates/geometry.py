r"""`Basis`: the rows that views are combinations of, what is known of them, and the geometry of their combinations.

A row of weights :math:`c` with sum zero stands for the vector :math:`\sum_i c_i x_i`, and inner products of two such
vectors follow from the squared distances :math:`D` alone: :math:`-\frac{1}{2} c^T D c'`. A row of weights with another
sum is completed to sum zero by the origin, one more point of the geometry.

Squared distances lose the digits of the honest rows when one row is far away. So everything is expressed about the
medoid of the rows that take part, and where one of them is more than `FAR` median distances away, the inner products
about the medoid are accumulated from the differences themselves: one more reading, exact to rounding.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from mixtailor._types import Flags, Floats, Integers
from mixtailor.kernels.selection import distinct, median, medoid, products_about_medoid
from mixtailor.updates.blocks import Beside, Blocks
from mixtailor.updates.numbers import Numbers
from mixtailor.updates.pairs import FEWEST, SCORED, Rough, exact_lengths, has_panels, rough_lengths
from mixtailor.updates.points import Point
from mixtailor.updates.reader import Reader

__all__ = ["FAR", "Basis"]

# Rounding in D is relative to its largest entry: at 1e4 median distances 1e-16 * (1e4)^2, 1e-8 of the median's square.
FAR = 1e4
# A combination that differs from another by this much of a far row is as far from it, to all digits that count.
_HEAVY = 1e-3
# A sum of which no more is left than this share of its terms has lost the digits that count.
_CANCELLED = 1e-9
# Up to one far row in so many has its inner products accumulated alone, and not with those of all rows.
_FEW = 4
# Up to so many points beside the rows, their distances are measured point by point.
_FEW_POINTS = 2
# The smallest length that has an inverse.
_INVERTIBLE = 1e-300


@final
class Centred(NamedTuple):
    """Inner products of some points about one of them."""

    middle: int  # which of them everything is about
    products: Floats
    far: Flags  # which of them are far from the medoid


@final
class Basis:
    """Rows, the distances between them that were asked for, and the Euclidean geometry of their combinations.

    The rows are those of a storage, or those of a view that must be measured: mixed rows in which far rows cancel, and
    rows with points beside them that are no combinations of them. A `base` is the row that all others are differences
    to, and stands for the origin; without it, no row does. Mixed rows are `made_of` another basis, by weights. Where
    `numbers` are given, all queries use these, and nothing is read.
    """

    def __init__(
        self,
        reader: Reader,
        source: Blocks,
        *,
        base: int | None = None,
        made_of: "tuple[Basis, Floats] | None" = None,
        numbers: Numbers | None = None,
    ) -> None:
        self.reader, self.space, self.source, self.n = reader, reader.space, source, source.n
        self.stored = source is reader
        self.made_of = made_of
        # For rows with points beside them: the rows, and the points.
        self.below: Any = source.below if isinstance(source, Beside) else None
        self.points: tuple[Point, ...] = source.points if isinstance(source, Beside) else ()
        self.base, self.origin = base, self.n if base is None else base
        self.lengths: dict[float, Floats] = {}
        self._norms: dict[float, Floats] = {}
        self._rough: dict[float, Rough] = {}
        self._inner: Floats | None = None
        self._centred: dict[bytes, Centred] = {}
        self._accumulated: dict[tuple[int, bool], Floats] = {}
        self._numbers = numbers
        for p, lengths in {} if numbers is None else numbers.distances.items():
            self.learn(p, lengths)

    def over_received(self, weights: Floats) -> Floats | None:
        """Weights on these rows as weights on the received updates; None if the rows depend on anything else."""
        if self.stored:
            return weights[: len(self.reader.received)]
        return None if self.made_of is None else self.made_of[0].over_received(weights @ self.made_of[1])

    # Between the rows.

    def distances(self, p: float) -> Floats:
        """The distances in a norm."""
        if p not in self.lengths:
            self.measure([p])
        return self.lengths[p]

    def measure(self, norms: Sequence[float]) -> None:
        """Have the distances in these norms in `lengths`; all that are not known are measured by one reading."""
        missing = [p for p in dict.fromkeys(norms) if p not in self.lengths]
        if not missing:
            return
        if self._numbers is not None:
            self._numbers.missing(missing)
        if 0 < len(set(self.points)) <= _FEW_POINTS:
            self._measure_beside(missing)
            return
        p = missing[0]
        if len(missing) == 1 and self._has_panels(p, FEWEST):
            self.learn(p, exact_lengths(self.reader, p))
            return
        n, powers = self.n, np.array(missing)

        def query(start: int, stop: int) -> Any:
            return self.space.pair_lengths(self.source.block(start, stop), powers)

        found = self.reader.lengths(query, self.source.runs(), powers, n * n).reshape(-1, n, n)
        for p, lengths in zip(missing, found, strict=True):
            self.learn(p, lengths)

    def _has_panels(self, p: float, fewest: int) -> bool:
        return self.n >= fewest and self.stored and has_panels(self.reader, p)

    def rough(self, p: float, *, scored: bool = False) -> Rough | None:
        """The distances in a norm within bounds, at half the cost; None where exact ones cost no more.

        `scored` says that scores of the rows are all that is needed.
        """
        if p in self.lengths or not self._has_panels(p, SCORED if scored else FEWEST):
            return None
        if p not in self._rough:
            self._rough[p] = rough_lengths(self.reader, p)
        found = self._rough[p]
        return found if found.usable else None

    def known_lengths(self) -> dict[float, Floats]:
        """The distances that are known, some of them roughly."""
        return {**{p: rough.lengths for p, rough in self._rough.items()}, **self.lengths}

    def _measure_beside(self, norms: Sequence[float]) -> None:
        """The distances between the rows below, and one pass for each distinct point."""
        below, distinct = self.below, list(dict.fromkeys(self.points))
        between = below.distances(tuple(norms))
        rows, count = below.n, len(distinct)
        away = np.zeros((len(norms), count, rows + count))
        for index, point in enumerate(distinct):
            found = below.beside(*distinct[index + 1 :]).lengths_to(point, norms)
            away[:, index, :rows] = found[:, :rows]
            away[:, index, rows + index + 1 :] = away[:, index + 1 :, rows + index] = found[:, rows:]
        place = np.array([distinct.index(point) for point in self.points])
        columns = np.concatenate([np.arange(rows), rows + place])
        for p, known, lengths in zip(norms, between, away, strict=True):
            whole, beside = np.empty((self.n, self.n)), lengths[np.ix_(place, columns)]
            whole[:rows, :rows], whole[rows:], whole[:rows, rows:] = known, beside, beside[:, :rows].T
            self.learn(p, whole)

    def learn(self, p: float, lengths: Floats) -> None:
        """Keep the distances in a norm."""
        lengths.flat[:: self.n + 1] = 0.0
        lengths.setflags(write=False)
        self.lengths[p] = lengths

    def norms(self, p: float) -> Floats:
        """The distances of the rows to the origin."""
        if self.base is not None:
            return np.asarray(self.distances(p)[self.base])
        if self._numbers is not None:
            return self._numbers.lengths(p)
        if p not in self._norms:
            self._norms[p] = self.reader.lengths_to(self.source, None, [p])[0]
        return self._norms[p]

    def inner(self) -> Floats:
        """Inner products of the rows about zero, from the rows themselves."""
        if self._inner is None:
            self._inner = self._gram(-1, np.ones(self.n)) if self._numbers is None else self._numbers.inner()
        return self._inner

    def _gram(self, about: int, inverse: Floats, *, origin: bool = False, which: Integers | None = None) -> Floats:
        """Inner products of ``(row - about) * inverse``, from differences; with the origin as last row.

        Only the rows `which` of it, where given: little more than a reading, where they are few.
        """
        if self._numbers is not None:
            found: Floats = self._numbers.about(about, origin=origin) * inverse[:, None] * inverse
            return found if which is None else found[which]
        space, count = self.space, self.n + 1 if which is None else len(which)

        def query(start: int, stop: int) -> Any:
            block = self.source.block(start, stop)
            if which is not None:
                return space.gram_rows(block, about, inverse, which)
            if origin:
                block = space.beside(block, [space.zeros(stop - start)], rounded=True)
            return space.gram(block, about, inverse)

        return self.reader.total(query, self.source.runs(), (self.n + 1) * count)

    # Between combinations of the rows.

    def centred(self, points: Integers) -> Centred:
        """The inner products of some points about a medoid of them. The points are rows; n stands for an origin."""
        key = points.tobytes()
        if key not in self._centred:
            self._centred[key] = self._about_medoid(points)
        return self._centred[key]

    def _about_medoid(self, points: Integers) -> Centred:
        origin = bool(len(points)) and points[-1] == self.n
        own = points[:-1] if origin else points
        between = self.distances(2.0)
        if len(own) < self.n:
            between = between[np.ix_(own, own)]
        if origin:
            norms = self.norms(2.0)[own]
            between = np.block([[between, norms[:, None]], [norms[None, :], np.zeros((1, 1))]])
        middle, products, far = products_about_medoid(between, len(own), FAR)
        if far.any():
            about = int(own[middle])
            if not origin and _FEW * far.sum() <= len(own) and (about, False) not in self._accumulated:
                lines = self.accumulated(about, which=own[far])[:, own]
                products[far], products[:, far] = lines, lines.T
            else:
                products = self._all_about(about, origin)[np.ix_(points, points)]
        if self._numbers is not None:
            self._numbers.sound(products)
        return Centred(middle, products, far)

    def accumulated(self, about: int, *, origin: bool = False, which: Integers | None = None) -> Floats:
        """The inner products of the rows about one, from their differences; of all rows, or of a few with all.

        Differences are brought to length one. Those of rows beyond half of the largest number overflow: such a row
        counts as orthogonal to all others.
        """
        away = self.lengths[2.0][about]
        if origin:
            away = np.append(away, self.norms(2.0)[about])
        away = np.maximum(away, _INVERTIBLE)
        rows = np.arange(len(away)) if which is None else which
        cosines = self._gram(about, 1.0 / away, origin=origin, which=which)
        same = rows[:, None] == np.arange(len(away))
        cosines = np.where(np.isfinite(cosines), np.clip(cosines, -1.0, 1.0), same)
        return np.asarray(cosines * away[rows][:, None] * away[None, :])

    def _all_about(self, about: int, origin: bool) -> Floats:
        """All inner products about a row, with the origin as last row."""
        known = self._accumulated.get((about, True))
        if known is not None:
            return known if origin else known[:-1, :-1]
        if (about, origin) not in self._accumulated:
            self._accumulated[about, origin] = self.accumulated(about, origin=origin)
        return self._accumulated[about, origin]

    def _taking_part(self, weights: Floats) -> tuple[Integers, Floats]:
        """The points of non-zero weight, and the weights on them, completed to sum zero by the origin."""
        # What a sum misses of zero up to rounding is rounding.
        missing = -weights.sum(axis=1)
        if np.abs(missing).max(initial=0.0) > 1e-12 * max(1.0, float(np.abs(weights).max(initial=0.0))):
            weights = np.column_stack([weights, np.zeros(len(weights))])
            weights[:, self.origin] += missing
        used = np.nonzero(weights.any(axis=0))[0]
        return used, weights[:, used]

    def products(self, weights: Floats) -> Floats:
        """Inner products of the vectors ``weights @ rows``."""
        points, used = self._taking_part(weights)
        if not len(points) or points[0] == self.n:  # nothing but the origin
            return np.zeros((len(weights), len(weights)))
        return np.asarray(used @ self.centred(points).products @ used.T)

    def distances_to(self, weights: Floats, aim: Floats) -> Floats:
        """Distances of the combinations ``weights @ rows`` to the combination ``aim @ rows``."""
        points, apart = self._taking_part(weights - aim)
        if not len(points):
            return np.zeros(len(weights))
        squares: Floats = ((apart @ self.centred(points).products) * apart).sum(axis=1)
        return np.sqrt(np.maximum(squares, 0.0))

    def between(self, weights: Floats) -> Floats | None:
        """Distances between the combinations ``weights @ rows``; None where they must be measured.

        That is so where far rows cancel inside a combination: squares have no digits of what is left.
        """
        far = self._heavy_far_rows(weights)
        found = self._between_by_products(weights) if far is None else self._between_by_difference(weights, far)
        if found is None:
            return None
        # Equal weights give the same point, whatever rounding says.
        same = distinct(weights)[1]
        found[same[:, None] == same] = 0.0
        return found

    def _between_by_products(self, weights: Floats) -> Floats:
        points, used = self._taking_part(weights - weights[:1])
        if not len(points):
            return np.zeros((len(weights), len(weights)))
        known = self.centred(points)
        inner = used @ known.products @ used.T
        norms = np.diag(inner)
        squares = norms[:, None] + norms[None, :] - (inner + inner.T)  # symmetric to the bit, as distances must be
        # Two combinations that both hold a far row: only the difference of their weights shows what cancels.
        for row in np.nonzero((used[:, known.far] != 0.0).any(axis=1))[0]:
            apart = used - used[row]
            squares[row] = squares[:, row] = ((apart @ known.products) * apart).sum(axis=1)
        return np.sqrt(np.maximum(squares, 0.0))

    def _heavy_far_rows(self, weights: Floats) -> Integers | None:
        """The far rows that take part, where every combination holds them with a substantial weight or not at all.

        Nearest-neighbour mixing and buckets are such. The far row then decides every distance that it has a part in, to
        all digits, so squared distances suffice and the reading of `_all_about` is saved.
        """
        if np.abs(weights.sum(axis=1) - 1.0).max(initial=0.0) > 1e-12:
            return None
        rows = np.nonzero(weights.any(axis=0))[0]
        between = self.distances(2.0)
        if len(rows) < self.n:
            between = between[np.ix_(rows, rows)]
        away = between[medoid(between)]
        far = rows[away > FAR * median(away)]
        if not len(far) or 2 * len(far) >= len(rows):
            return None
        apart = np.abs(weights[:, None, far] - weights[None, :, far])
        return far if apart[apart > 0].min(initial=1.0) >= _HEAVY else None

    def _between_by_difference(self, weights: Floats, far: Integers) -> Floats | None:
        touched = (weights[:, far] != 0.0).any(axis=1)
        found = np.empty((len(weights), len(weights)))
        found[np.ix_(~touched, ~touched)] = self._between_by_products(weights[~touched])
        squares = self.distances(2.0) ** 2
        for row in np.nonzero(touched)[0]:
            apart = weights - weights[row]
            square = -0.5 * ((apart @ squares) * apart).sum(axis=1)
            size = np.abs(apart)
            if (square < _CANCELLED * ((size @ squares) * size).sum(axis=1)).any():
                return None
            found[row] = found[:, row] = np.sqrt(np.maximum(square, 0.0))
        return found
