"""Sums over pairs of many float32 rows, of powers of differences or of products: a panel of rows in the cache meets
all rows before it.

With hundreds of rows no tile holds a run of all of them. So the work is divided by pairs, not by coordinates: a panel
of rows is copied to the second-level cache, a run at a time, and every row up to the panel's last passes by it, four at
a time. Panels are independent of each other and are shared out to the threads; together they fill one triangle of one
matrix, whatever the number of threads.

A panel is float64, or float32 at twice the speed. In float32, differences are rounded once and a lane adds up `TERMS`
powers before they are added in float64: a sum of p-th powers is right to ``(TERMS + 2 p) 2^-24``, up to terms that are
lost because float32 cannot hold them. Rows are brought to the size of one by a power of two, run by run, and what could
have been lost at most, by underflow, is returned as the `floor`: a sum below it is not to be used. A sum that
overflowed is infinite.

Products are those of the rows less one of them, the `centre`: of two vector instructions for a register of differences
one is left. The centre is taken off each run of the rows, rounded once, so that no common offset costs digits.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels import threads
from mixtailor.kernels._numba import helper, run_at, special_kernel
from mixtailor.kernels.blocks import PRODUCT, grow, one_pair, scale_rows, subtract_row
from mixtailor.kernels.distances import aligned
from mixtailor.kernels.lanes import DOUBLES, GROUP, REGISTER, Code, Data, Double, Element, Word, emitted
from mixtailor.kernels.norms import usual_exponent
from mixtailor.kernels.tiles import PER, fill

__all__ = [
    "HIGHEST", "WIDE", "PairSums", "listed_sums", "panel_sums", "product_error", "range_sums", "relative_error",
]  # fmt: skip

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

WIDE = 400  # rows from which on the pairs are divided among the threads, and not the coordinates
HIGHEST = 6.0  # powers up to here stay in the range of float64, whatever the size of float32 rows
PANEL = 252  # rows: what a second-level cache of 1 MB holds
RUN = 1024  # float32 coordinates of a row in a panel; half as many of float64
TERMS = RUN // PER
GAP = 16  # keeps the rows of a panel off the same cache sets
# Rows a side of a block: 24 sums, 4 rows and 1 fit 32 registers, and 9, 3 and 1 fit 16.
UPPER, LOWER = (GROUP, 6) if GROUP == 4 else (GROUP, GROUP)
SAMPLE = 17  # rows whose differences give the size of a run
EVERY_RUNS = 16  # after so many runs their size is measured again: a unit need not be the best one to be exact
LOST = 2.0**-80  # of a power of the size, for each coordinate: what underflow may cost, with much to spare


def relative_error(p: float) -> float:
    """By which share a float32 sum of p-th powers may be wrong: first-order terms, and a tenth for the rest."""
    return 1.1 * (TERMS + 2 * p) * 2.0**-24


def product_error(double: bool) -> float:
    """By which share of ``(|x_i| + |x_j|)^2``, lengths from the centre, a square that products give may be wrong.

    A lane adds up `TERMS` products, or half as many of float64, each rounded with its sum; the centre was taken off
    with one rounding. The last sum is float64.
    """
    return 1.1 * (TERMS / 2 + 12) * 2.0**-53 if double else 1.1 * (TERMS + 4) * 2.0**-24


@emitted()
def _rows_and_panel(
    code: Code,
    upper: Data,
    panel: Data,
    pitch: Word,
    vectors: Word,
    first: Word,
    last: Word,
    sums: Data,
    stride: Word,
    factor: Double,
    p: Double,
    like: Element,
    term: int,
) -> None:
    """Add `factor` times the sums of the upper rows with the groups `first` to `last` of the panel's rows."""
    builder, word, count = code.builder, vectors.type, code.per_register(like)
    zero = code.constant(0.0, like, count)
    rows = [builder.add(upper, builder.mul(pitch, word(a))) for a in range(UPPER)]
    with code.loop(last, first) as group:
        j = builder.mul(group, word(LOWER))
        others = [builder.add(panel, builder.mul(builder.add(j, word(b)), pitch)) for b in range(LOWER)]
        totals = {(a, b): code.variable(zero) for b in range(LOWER) for a in range(UPPER)}
        with code.loop(vectors) as step:
            here = builder.mul(step, word(REGISTER))
            x = [code.load(builder.add(row, here), like, count) for row in rows]
            for b, other in enumerate(others):
                y = code.load(builder.add(other, here), like, count)
                for a in range(UPPER):
                    total = totals[a, b]
                    total.set(grow(term, p, x[a], y, [total.get()])[0])
        for (a, b), total in totals.items():
            line = builder.add(sums, builder.mul(stride, word(a)))
            place = builder.add(line, builder.mul(builder.add(j, word(b)), word(8)))
            code.add_double(builder.fmul(total.get().widened().total(), factor), place)


@helper
def _pack(addresses: Any, like: Any, start: int, length: int, one: float, two: float, target: Any) -> None:
    """Copy a run of some rows, times `one` and then `two`; zeros up to the next whole register."""
    whole, pitch = length // PER, target.strides[0]
    if target.itemsize == 8:
        fill(addresses, like, start, length, target)
    else:
        scale_rows(addresses, start * like.itemsize, addresses.size, whole, target, pitch, one, two)
        if whole * PER < length:
            for k in range(addresses.size):
                row = run_at(addresses[k], like, start, length)
                for c in range(whole * PER, (whole + 1) * PER):
                    target[k, c] = row[c] * one * two if c < length else 0.0


@functools.cache
def _panel(term: int, double: int) -> Callable[..., float]:
    @special_kernel(term, double)
    def sums_of_panel(
        addresses: Any,
        like: Any,
        width: Any,
        low: Any,
        high: Any,
        p: Any,
        centre: Any,
        panel: Any,
        upper: Any,
        middle: Any,
        part: Any,
        room: Any,
    ) -> Any:
        """Adds to `part`, a line for each row up to the panel's last; returns the floor. The rest is room to work."""
        run, per = panel.shape[1] - GAP, REGISTER // panel.itemsize
        groups = panel.shape[0] // LOWER
        some = np.empty(min(SAMPLE, addresses.size), np.intp)
        shift, floor = 0, 0.0
        for start in range(0, width, run):
            length = min(run, width - start)
            if not double and length >= DOUBLES and start // run % EVERY_RUNS == 0:
                for k in range(some.size):
                    some[k] = addresses[k * addresses.size // some.size] + start * like.itemsize
                shift = usual_exponent(some, length // DOUBLES * DOUBLES, like, shift, room)
            half = shift // 2
            one, two = math.ldexp(1.0, -half), math.ldexp(1.0, half - shift)
            factor = 2.0 ** (p * shift)
            floor += length * LOST * factor
            vectors, pitch = (length + per - 1) // per, panel.strides[0]
            _pack(addresses[low:high], like, start, length, one, two, panel)
            if term == PRODUCT:
                _pack(addresses[centre : centre + 1], like, start, length, one, two, middle)
                subtract_row(panel, pitch, vectors, middle, high - low, panel)
            for i in range(0, high, UPPER):
                rows = upper
                if low <= i and i + UPPER <= high:
                    rows = panel[i - low : i - low + UPPER]
                else:
                    _pack(addresses[i : min(high, i + UPPER)], like, start, length, one, two, upper)
                    if term == PRODUCT:
                        subtract_row(upper, pitch, vectors, middle, min(UPPER, high - i), panel)
                _rows_and_panel(
                    rows,
                    panel,
                    pitch,
                    vectors,
                    max(0, i - low) // LOWER,
                    groups,
                    part[i],
                    part.strides[0],
                    factor,
                    p,
                    panel,
                    term,
                )
        return floor

    return sums_of_panel


def _whole(count: int, size: int) -> int:
    return -(-count // size) * size


def panel_sums(
    addresses: Indices,
    like: NDArray[np.float32],
    width: int,
    low: int,
    high: int,
    p: float,
    double: bool,
    centre: int | None = None,
) -> tuple[Floats, float]:
    """``sum |x_i - x_j|^p`` for i < j and j from `low` to `high`, (high, high - low), and the floor.

    With a centre c, ``sum (x_i - x_c)(x_j - x_c)`` for i <= j. What stands below means nothing.
    """
    kind, run = (np.float64, RUN // 2) if double else (np.float32, RUN)
    panel, upper = aligned(_whole(high - low, LOWER), run + GAP, kind), aligned(UPPER, run + GAP, kind)
    panel[high - low :], upper[:] = 0.0, 0.0
    middle = aligned(1, run + GAP, kind)
    part = np.zeros((_whole(high, UPPER), len(panel)))
    term, about = (int(4 * p), 0) if centre is None else (PRODUCT, centre)
    floor = _panel(term, int(double))(
        addresses, like, width, low, high, p, about, panel, upper, middle, part, np.zeros(SAMPLE + 1)
    )
    return part[:high, : high - low], 0.0 if double else floor


def panels_of(n: int) -> list[tuple[int, int]]:
    """Panels of about equal width, at most `PANEL` rows.

    Examples
    --------
    >>> panels_of(300)
    [(0, 150), (150, 300)]
    """
    count = -(-n // PANEL)
    bounds = [n * k // count for k in range(count + 1)]
    return list(itertools.pairwise(bounds))


@final
class PairSums:
    """Sums of p-th powers of the differences between all pairs of many rows, range by range of coordinates.

    Parameters
    ----------
    n : int
        Rows, at least four.
    p : float
        A multiple of 1/4, at most `HIGHEST`.
    double : bool
        Whether differences and sums are float64. If not, sums are right to `relative_error`.
    centre : int, optional
        With it, products of the rows less this row take the place of powers of differences; p is 2 then.

    Attributes
    ----------
    total : array
        The sums for i < j, with a centre for i <= j, n x n.
    floor : float
        What the sums may have lost by underflow; 0 in float64.
    """

    def __init__(self, n: int, p: float, *, double: bool, centre: int | None = None) -> None:
        self.p, self.double, self.centre = p, double, centre
        self.total = np.zeros((n, n))
        self.floor = 0.0
        self._panels = panels_of(n)

    def add(self, addresses: Indices, like: NDArray[np.float32], width: int) -> None:
        """Add a range of coordinates, by all threads."""

        def panel(low: int, high: int) -> float:
            part, floor = panel_sums(addresses, like, width, low, high, self.p, self.double, self.centre)
            self.total[:high, low:high] += part
            return floor

        floors = threads.over([functools.partial(panel, low, high) for low, high in reversed(self._panels)])
        self.floor += floors[0]


def range_sums(
    addresses: Indices, like: NDArray[np.float32], width: int, p: float, double: bool, centre: int | None = None
) -> Floats:
    """The sums of `PairSums` over one range, n x n in one run, and after them the floor."""
    n = addresses.size
    found, floor = np.zeros(n * n + 1), 0.0
    for low, high in panels_of(n):
        part, floor = panel_sums(addresses, like, width, low, high, p, double, centre)
        found[:-1].reshape(n, n)[:high, low:high] = part
    found[-1] = floor
    return found


@functools.cache
def _listed(term: int) -> Callable[..., None]:
    @special_kernel(term)
    def sums_of_listed_pairs(
        addresses: Any, like: Any, width: Any, first: Any, second: Any, p: Any, answer: Any
    ) -> None:
        whole = width // DOUBLES * DOUBLES
        for start in range(0, whole, RUN):
            vectors = min(RUN, whole - start) // DOUBLES
            for k in range(first.size):
                one = addresses[first[k]] + start * like.itemsize
                other = addresses[second[k]] + start * like.itemsize
                one_pair(one, other, vectors, answer[k : k + 1], 1.0, p, like, term)
        for k in range(first.size):
            one, other = run_at(addresses[first[k]], like, 0, width), run_at(addresses[second[k]], like, 0, width)
            for c in range(whole, width):
                answer[k] += abs(np.float64(one[c]) - np.float64(other[c])) ** p

    return sums_of_listed_pairs


def listed_sums(
    addresses: Indices, like: NDArray[Any], width: int, first: Indices, second: Indices, p: float
) -> Floats:
    """``sum |x_i - x_j|^p`` in float64 for the listed pairs."""
    answer = np.zeros(first.size)
    _listed(int(4 * p))(addresses, like, width, first, second, p, answer)
    return answer
