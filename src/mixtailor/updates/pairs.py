r"""Distances between many float32 rows: in float32 with a bound, and exactly where a decision hangs on it.

Differences of float32 numbers, rounded to float32, have the accuracy of differences: the distance of each pair is
right to a *share* of itself, `Rough.error`, whatever the rows are and wherever they lie. (A matrix product would be
right to a share of the rows' lengths.) So every comparison of distances, or of sums of them, is either certain, or its
pairs are formed again from float64 differences. On rows like gradients that is a handful of pairs, and float32 takes
half the time.
"""

from collections.abc import Callable
from typing import Any, final

import numpy as np

from mixtailor._types import Flags, Floats, Integers
from mixtailor.kernels import panels
from mixtailor.kernels.selection import by_neighbours
from mixtailor.updates.reader import Reader

__all__ = ["FEWEST", "SCORED", "Rough", "has_panels", "listed_sums", "pair_sums"]

FEWEST = 100  # rows; with 50, rules that need exact distances besides were slower by a fifth
SCORED = 50  # rows, for scores alone: these seldom need more, and at 50 cost a quarter less, while at 24 they do not
_ENTRIES = 1 << 21  # of a range, all rows together: what the last-level cache of most processors holds
_WIDE_ENTRIES = 1 << 22
# Beyond this share of all pairs, all are formed again: a list of pairs costs several times as much, pair by pair.
_SHARE = 1 / 16

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


def pair_sums(reader: Reader, p: float, *, double: bool) -> tuple[Floats, float]:
    """Sums of p-th powers of the differences between all stored rows, n x n, and the floor below which one is unsound.

    A sum that float32 cannot hold is not finite, and neither are those of a row that is not.
    """
    n = reader.n
    if n < panels.WIDE:

        def query(start: int, stop: int) -> Any:
            block = reader.block(start, stop)
            return panels.range_sums(block.addresses, block.like, block.width, p, double)

        found = reader.total(query, _ranges(reader, _ENTRIES), n * n)
        total, floor = found[:-1].reshape(n, n), float(found[-1])
    else:
        sums = panels.PairSums(n, p, double=double)

        def add(start: int, stop: int) -> None:
            block = reader.block(start, stop)
            sums.add(block.addresses, block.like, block.width)

        reader.visit(add, _ranges(reader, _WIDE_ENTRIES))
        total, floor = reader.summed(sums.total), sums.floor
        if reader.group is not None:
            floor = float(reader.summed(np.array([floor]))[0])
    upper = np.triu(total, 1)
    return upper + upper.T, floor


def listed_sums(reader: Reader, first: Integers, second: Integers, p: float) -> Floats:
    """Sums of p-th powers of the differences of some pairs, in float64."""

    def query(start: int, stop: int) -> Any:
        block = reader.block(start, stop)
        return panels.listed_sums(block.addresses, block.like, block.width, first, second, p)

    return reader.total(query, _ranges(reader, _ENTRIES), len(first))


@final
class Rough:
    r"""The l_p distances between rows, each right to a share `error` of itself, or exact.

    With :math:`u = 2^{-24}`, a difference is rounded once, its p-th power p times at most, and 64 powers are added up
    before float64 takes over: a sum is right to :math:`(64 + 2p) u`, and a distance to a p-th of that, which is 2.2e-6
    for p = 2. (On rows like gradients it is 1e-8 to 1e-7.) Sums that float32 could not hold are formed again from the
    start, and so are those of rows that are equal, once for all rows that equal them.

    It is made of the sums that `pair_sums` gives, and of what gives the sums of listed pairs in float64.
    """

    def __init__(self, total: Floats, floor: float, p: float, refine: Refine) -> None:
        self.p, self._refine, self.n = p, refine, len(total)
        self.error = panels.relative_error(p) / p
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

        A score is a sum of the least distances, to a power, and so right to a share, too. The other scores, and the
        order among the first, are right to that share. None where all pairs had to be formed again.
        """
        share = 1.01 * power * self.error
        while True:
            order, scores = by_neighbours(self.lengths, neighbours, power)
            wrong = np.where(self.exact.all(axis=1), 0.0, share) * scores
            chosen = np.zeros(self.n, np.bool_)
            chosen[order[:certain]] = True
            if chosen.all():
                return order, scores
            most, least = (scores + wrong)[chosen].max(), (scores - wrong)[~chosen].min()
            doubtful = np.where(chosen, scores + wrong >= least, scores - wrong <= most)
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
            share = np.where(self.exact, 0.0, 1.01 * self.error)
            high = np.where(chosen, own * (1.0 + share), -np.inf).max(axis=1, keepdims=True)
            low = np.where(chosen, np.inf, own * (1.0 - share)).min(axis=1, keepdims=True)
            doubtful = np.where(chosen, own * (1.0 + share) >= low, own * (1.0 - share) <= high) & (own >= 0.0)
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
