r"""Distances between many float32 rows: roughly, with a bound, and exactly where a decision hangs on it.

In l_2 they come from inner products about one of the rows, which takes half the arithmetic of differences. A square is
then right to a share of :math:`(r_i + r_j)^2`, the squared lengths from that row, and rows that are near to each other
may have no digits left. In other norms they come from differences, and each is right to a share of itself, wherever the
rows lie. Either way a comparison of distances, or of sums of them, is certain, or its pairs are formed again from
float64 differences. On rows like gradients that is a handful of pairs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, final

import numpy as np

from mixtailor._types import Flags, Floats, Integers
from mixtailor.kernels import panels
from mixtailor.kernels.selection import by_neighbours
from mixtailor.updates.reader import Reader

__all__ = ["FEWEST", "SCORED", "Rough", "exact_lengths", "has_panels", "listed_sums", "rough_lengths"]

FEWEST = 100  # rows; with 50, rules that need exact distances besides were slower by a fifth
SCORED = 50  # rows, for scores alone: these seldom need more, and at 50 cost a quarter less, while at 24 they do not
_ENTRIES = 1 << 21  # of a range, all rows together: what the last-level cache of most processors holds
_WIDE_ENTRIES = 1 << 22
# Beyond this share of all pairs, all are formed again: a list of pairs costs several times as much, pair by pair.
_SHARE = 1 / 16
# A distance from float64 products that may be wrong by more is formed from differences: of rows that are ten times as
# near to each other as to the centre.
_EXACT = 1e-12
_STRETCHES, _STRETCH = 4, 64  # coordinates from which a usual row is chosen

Refine = Callable[[Integers, Integers], Floats]


def has_panels(reader: Reader, p: float) -> bool:
    """Whether `pair_sums` can do it, and better than a tile of all rows: for stored float32 rows that are many."""
    return reader.space.by_address and reader.storage.single and 1.0 <= p <= panels.HIGHEST and 4 * p == int(4 * p)


def _ranges(reader: Reader, entries: int) -> list[tuple[int, int]]:
    """Ranges of whole runs of the kernels, where blocks may begin anywhere; else those of the storage."""
    storage = reader.storage
    if not storage.in_place:
        return storage.runs()
    start, stop = storage.span
    width = max(panels.RUN, entries // reader.n // panels.RUN * panels.RUN)
    return [(low, min(low + width, stop)) for low in range(start, stop, width)] or [(start, start)]


def _pair_sums(reader: Reader, p: float, *, double: bool, centre: int | None = None) -> tuple[Floats, float]:
    """`PairSums` between all stored rows, on both sides of the diagonal, and the floor below which one is unsound.

    A sum that float32 cannot hold is not finite, and neither are those of a row that is not.
    """
    n = reader.n
    if n < panels.WIDE:

        def query(start: int, stop: int) -> Any:
            block = reader.block(start, stop)
            return panels.range_sums(block.addresses, block.like, block.width, p, double, centre)

        found = reader.total(query, _ranges(reader, _ENTRIES), n * n)
        total, floor = found[:-1].reshape(n, n), float(found[-1])
    else:
        sums = panels.PairSums(n, p, double=double, centre=centre)

        def add(start: int, stop: int) -> None:
            block = reader.block(start, stop)
            sums.add(block.addresses, block.like, block.width)

        reader.visit(add, _ranges(reader, _WIDE_ENTRIES))
        total, floor = reader.summed(sums.total), sums.floor
        if reader.group is not None:
            floor = float(reader.summed(np.array([floor]))[0])
    both = np.triu(total, 1)
    both += both.T
    both.flat[:: n + 1] = 0.0 if centre is None else np.diag(total)
    return both, floor


def _usual_row(reader: Reader) -> int:
    """A row among most others, from a few coordinates: the nearest to their medians.

    Any row will do; about one that is far away, more pairs are formed again.
    """
    d = reader.storage.d
    starts = [max(0, d * (2 * k + 1) // (2 * _STRETCHES) - _STRETCH // 2) for k in range(_STRETCHES)]
    which = np.unique(np.concatenate([np.arange(start, min(start + _STRETCH, d)) for start in starts]))
    found = reader.coordinates(which).astype(np.float64)
    with np.errstate(invalid="ignore"):  # of rows that are not finite, which the reading reports
        away = ((found - np.partition(found, len(found) // 2, axis=0)[len(found) // 2]) ** 2).sum(axis=1)
    return int(np.nan_to_num(away, nan=np.inf).argmin())


def exact_lengths(reader: Reader, p: float) -> Floats:
    """The l_p distances between all stored rows, n x n, formed in float64."""
    if p == 2.0:
        found = _about_row(reader, double=True)
        if found.usable and found.form(*np.nonzero(found.loose(_EXACT))):
            return found.lengths
    sums = _pair_sums(reader, p, double=True)[0]
    return np.sqrt(sums) if p == 2.0 else np.asarray(sums ** (1.0 / p))


def rough_lengths(reader: Reader, p: float) -> "Rough":
    """The l_p distances between all stored rows, formed in float32."""
    if p == 2.0:
        return _about_row(reader, double=False)
    total, floor = _pair_sums(reader, p, double=False)
    return Rough(total, panels.relative_error(p), floor, p, partial(listed_sums, reader, p=p))


def _about_row(reader: Reader, *, double: bool) -> "Rough":
    """The distances from inner products about a usual row."""
    products, floor = _pair_sums(reader, 2.0, double=double, centre=_usual_row(reader))
    own = np.diag(products).copy()
    with np.errstate(invalid="ignore", over="ignore"):
        products *= -2.0
        products += own[:, None]
        products += own
    products.flat[:: len(own) + 1] = 0.0
    refine = partial(listed_sums, reader, p=2.0)
    squares: Floats = np.maximum(products, 0.0, out=products)
    return Rough(squares, panels.product_error(double), 4.0 * floor, 2.0, refine, reach=np.sqrt(own))


def listed_sums(reader: Reader, first: Integers, second: Integers, p: float) -> Floats:
    """Sums of p-th powers of the differences of some pairs, in float64."""

    def query(start: int, stop: int) -> Any:
        block = reader.block(start, stop)
        return panels.listed_sums(block.addresses, block.like, block.width, first, second, p)

    return reader.total(query, _ranges(reader, _ENTRIES), len(first))


@final
class Rough:
    r"""The l_p distances between rows, each known to lie between two bounds, or exact.

    With :math:`u = 2^{-24}`, a difference is rounded once, its p-th power p times at most, and 64 powers are added up
    before float64 takes over: a sum of them is right to :math:`(64 + 2p) u`. Squares from inner products are right to
    :math:`68 u (r_i + r_j)^2`, or 1.8e-5 of a square whose rows are as far from the centre as from each other. (On rows
    like gradients the errors are a hundredth of that.) Sums that float32 could not hold are formed again from the
    start, and so are those of rows that are equal, once for all rows that equal them.

    Parameters
    ----------
    total : array
        Sums of p-th powers, n x n.
    error : float
        By which share of itself each may be wrong; with a reach, of the square of two rows' reach.
    floor : float
        What underflow may have cost.
    p : float
        The norm.
    refine : callable
        The sums of listed pairs, in float64.
    reach : array, optional
        The distances of the rows from the centre, for sums from inner products.
    """

    def __init__(
        self, total: Floats, error: float, floor: float, p: float, refine: Refine, *, reach: Floats | None = None
    ) -> None:
        self.p, self._refine, self.n, self._error, self._reach = p, refine, len(total), 1.01 * error, reach
        self.same = np.arange(self.n)  # for each row, the first row that equals it
        self.exact = np.eye(self.n, dtype=np.bool_)  # which distances were formed in float64
        with np.errstate(invalid="ignore", over="ignore"):
            sound = (total > floor) & (total < np.inf)
            self.lengths = np.sqrt(total) if p == 2.0 else total ** (1.0 / p)
        unsound = np.triu(~sound, 1)
        self.usable = True  # float32 was good for nearly all pairs; if not, forming all in float64 costs less
        if unsound.any():
            self._find_equal(unsound & (total == 0.0))
            unsound &= self.same[:, None] != self.same
            self.usable = self.form(*np.nonzero(unsound))

    def bounds(self) -> tuple[Floats, Floats]:
        """The least and the largest that each distance can be."""
        if self._reach is None:
            share = np.where(self.exact, 0.0, self._error / self.p)
            return self.lengths * (1.0 - share), self.lengths * (1.0 + share)
        doubt = np.where(self.exact, 0.0, self._error * (self._reach[:, None] + self._reach) ** 2)
        squares = self.lengths**2
        return np.sqrt(np.maximum(squares - doubt, 0.0)), np.sqrt(squares + doubt)

    def loose(self, share: float) -> Flags:
        """Which pairs, once each, may be wrong by more than a share of their distance, if they are not exact."""
        assert self._reach is not None
        close = (self._reach[:, None] + self._reach) * (self._error / (2.0 * share)) ** 0.5 > self.lengths
        return np.triu(close, 1)

    def _scores_within(self, scores: Floats, neighbours: int, power: int) -> tuple[Floats, Floats]:
        """The least and the largest that each score can be."""
        if self._reach is None:
            wrong = power * self._error / self.p * scores
        elif power == 2:
            # Of so many other rows none is farther from the centre than `near`. A row's nearest ones are then within
            # its own reach and `near`, and their reach within twice its own and `near`.
            near = np.sort(self._reach)[min(neighbours, self.n - 1)]
            wrong = neighbours * self._error * (3.0 * self._reach + near) ** 2
        else:
            least, most = (by_neighbours(bound, neighbours, power)[1] for bound in self.bounds())
            return least, most
        wrong[self.exact.all(axis=1)] = 0.0
        return scores - wrong, scores + wrong

    def _find_equal(self, zero: Flags) -> None:
        """Rows at distance zero: each is compared with the first such row, and what equals it has its distances."""
        later = np.nonzero(zero.any(axis=0))[0]
        if not len(later):
            return
        first = zero.argmax(axis=0)[later]
        apart = self._refine(first, later)
        for row, earlier, sum_of_powers in zip(later, first, apart, strict=True):
            if sum_of_powers == 0.0:
                self.same[row] = self.same[earlier]
        alike = self.same[:, None] == self.same
        self.lengths[alike], self.exact[alike] = 0.0, True

    @property
    def first(self) -> Integers:
        """The rows that equal no earlier one."""
        return np.nonzero(self.same == np.arange(self.n))[0]

    def form(self, first: Integers, second: Integers) -> bool:
        """Form some pairs again, in float64, each once for all rows that equal the two; whether that was possible.

        It is not where they are so many that forming all pairs costs less.
        """
        one, other = self.same[first], self.same[second]
        wanted = np.zeros((self.n, self.n), np.bool_)
        wanted[np.minimum(one, other), np.maximum(one, other)] = True
        wanted &= ~self.exact
        one, other = np.nonzero(wanted)
        if not len(one):
            return True
        if len(one) > _SHARE * self.n * self.n / 2 + self.n:
            return False
        lengths = self._refine(one, other) ** (1.0 / self.p)
        if len(self.first) == self.n:
            self.lengths[one, other] = self.lengths[other, one] = lengths
            self.exact[one, other] = self.exact[other, one] = True
            return True
        members = [np.nonzero(self.same == row)[0] for row in range(self.n)]
        for i, j, length in zip(one, other, lengths, strict=True):
            here, there = np.ix_(members[i], members[j]), np.ix_(members[j], members[i])
            self.lengths[here] = self.lengths[there] = length
            self.exact[here] = self.exact[there] = True
        return True

    def by_neighbours(self, neighbours: int, power: int, certain: int) -> tuple[Integers, Floats] | None:
        """As `kernels.selection.by_neighbours`; which rows come first, `certain` of them, is as exact scores say.

        A score is a sum of the least distances, to a power, and so lies between those of the bounds. The other scores,
        and the order among the first, are right to what these differ by. None where all pairs had to be formed again.
        """
        while True:
            order, scores = by_neighbours(self.lengths, neighbours, power)
            chosen = np.zeros(self.n, np.bool_)
            chosen[order[:certain]] = True
            if chosen.all():
                return order, scores
            least, most = self._scores_within(scores, neighbours, power)
            doubtful = np.where(chosen, most >= least[~chosen].min(), least <= most[chosen].max())
            # Equal rows have equal scores, and the first of them comes first.
            rows = np.unique(self.same[doubtful])
            open_rows = rows[~self.exact[rows].all(axis=1)]
            if len(rows) < 2 or not len(open_rows):
                return order, scores
            first, second = (grid.ravel() for grid in np.meshgrid(open_rows, self.first, indexing="ij"))
            if not self.form(first, second):
                return None

    def nearest(self, count: int) -> Flags | None:
        """Which are the `count` rows nearest to each row, itself among them; of equally near ones the first.

        As exact distances say; None where all pairs had to be formed again.
        """
        if count >= self.n:
            return np.ones((self.n, self.n), np.bool_)
        while True:
            own = self.lengths.copy()
            own.flat[:: self.n + 1] = -1.0
            last = np.partition(own, count - 1, axis=1)[:, count - 1 : count]
            chosen = own < last
            ties = own == last
            missing = count - chosen.sum(axis=1, keepdims=True)
            chosen |= ties & (np.cumsum(ties, axis=1) <= missing)
            least, most = self.bounds()
            high = np.where(chosen, most, -np.inf).max(axis=1, keepdims=True)
            low = np.where(chosen, np.inf, least).min(axis=1, keepdims=True)
            doubtful = np.where(chosen, most >= low, least <= high) & (own >= 0.0)
            # One row and those that equal it are no doubt: the first of them come first.
            lines, columns = np.nonzero(doubtful)
            names = self.same[columns]
            least, most = np.full(self.n, self.n), np.full(self.n, -1)
            np.minimum.at(least, lines, names)
            np.maximum.at(most, lines, names)
            unsettled = (least < most)[lines] & ~self.exact[lines, columns]
            if not unsettled.any():
                return chosen
            if not self.form(lines[unsettled], columns[unsettled]):
                return None
