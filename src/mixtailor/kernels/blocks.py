"""Sums over pairs of rows of a tile, a block of pairs at a time.

Every row that is loaded meets several others in registers: a block of 4 x 4 rows loads 8 registers for 16 pairs.
What is summed is given by a constant, the `term`:

- ``4 p`` for ``|x - y|^p`` with p a multiple of 1/4, and `ANY` for every other p, which is then an argument;
- `MAXIMUM` for ``max |x - y|``, `PRODUCT` for ``x y``;
- ``EVERY + q`` for all whole powers from 1 to q of ``|x - y|``, each in a plane of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mixtailor.kernels.lanes import DOUBLES, GROUP, REGISTER, Code, Data, Double, Element, Lanes, Word, emitted
from mixtailor.kernels.powers import power, power_plus, raised
from mixtailor.kernels.tiles import rows_together

__all__ = [
    "ANY",
    "EVERY",
    "MAXIMUM",
    "PRODUCT",
    "dots_about",
    "emit_pair",
    "emit_pairs",
    "emit_point",
    "grow",
    "one_pair",
    "pairs_of_rows",
    "rows_and_point",
    "scale_rows",
    "shift_and_scale",
    "subtract_row",
    "weigh",
]

MAXIMUM, PRODUCT, ANY, EVERY = 0, -1, -2, 1000


def grow(term: int, p: Any, x: Lanes, y: Lanes, totals: Sequence[Lanes]) -> list[Lanes]:
    """The totals with what one pair of registers adds to them."""
    if term == PRODUCT:
        return [x.times_plus(y, totals[0])]
    difference = x - y
    if term == MAXIMUM:
        # As integers, |x| keeps its order and NaN lies above infinity: a faulty row cannot hide.
        return [abs(difference).bits().larger_bits(totals[0])]
    if term == ANY:
        return [totals[0] + raised(abs(difference), p)]
    if term > EVERY:
        return _every(abs(difference), totals)
    if term == 4:
        # p is 1 here, but LLVM does not know it: the sum becomes a fused one and leaves the adders to the differences.
        return [abs(difference).times_plus(x.code.spread(p, x.count).narrowed(x.element), totals[0])]
    return [power_plus(difference if term % 8 == 0 else abs(difference), term, totals[0])]


def _every(x: Lanes, totals: Sequence[Lanes]) -> list[Lanes]:
    """Add x, x^2, x^3, ...: one product each, since those above x^8 are fused with their sums."""
    known: dict[int, Lanes] = {}
    low = [total + power(x, p, known) for p, total in enumerate(totals[:8], 1)]
    eighth = power(x, 8, known) if len(totals) > 8 else x
    return low + [power(x, p, known).times_plus(eighth, total) for p, total in enumerate(totals[8:], 1)]


def _block(
    code: Code,
    term: int,
    p: Any,
    rows: Sequence[Any],
    others: Sequence[Any],
    vectors: Any,
    place: Any,
    element: Any,
    load: Callable[[Any, Any], Lanes] | None = None,
) -> None:
    """Pairs of rows at the addresses `rows` and `others`; no others means the pairs among `rows`.

    ``place(a, b, plane)`` is the address of the sum of a pair. All arithmetic is in numbers of type `element`, up to
    the sum over the lanes, which is float64. So are the rows, unless ``load(row, step)`` reads them.
    """
    first = 0 if term == PRODUCT else 1
    if others:
        pairs = [(a, b) for a in range(len(rows)) for b in range(len(others))]
    else:
        pairs = [(a, b) for a in range(len(rows)) for b in range(a + first, len(rows))]
    count = code.per_register(element)
    zero = code.constant(0.0, element, count)
    planes = max(1, term - EVERY)
    totals = {pair: [code.variable(zero.bits() if term == MAXIMUM else zero) for _ in range(planes)] for pair in pairs}
    read = load or (lambda row, step: code.load(code.offset(row, step, REGISTER), element, count))
    with code.loop(vectors) as step:
        x = [read(row, step) for row in rows]
        y = [read(row, step) for row in others] or x
        for (a, b), total in totals.items():
            grown = grow(term, p, x[a], y[b], [each.get() for each in total])
            for each, value in zip(total, grown, strict=True):
                each.set(value)
    for (a, b), total in totals.items():
        for plane, each in enumerate(total):
            if term == MAXIMUM:
                code.raise_word(each.get().largest_bits(), place(a, b, plane))
            else:
                code.add_double(each.get().widened().total(), place(a, b, plane))


def _group(term: int) -> int:
    """How many rows make a side of a block: with many sums a pair, or long code, one."""
    return 1 if term > EVERY or term == ANY else GROUP


@emitted()
def pairs_of_rows(
    code: Code, tile: Data, pitch: Word, vectors: Word, sums: Data, rows: Word, p: Double, like: Element, term: int
) -> None:
    """Add the sums of all pairs of rows i < j of a tile, for products i <= j, to the matrix (or planes) at `sums`.

    The tile's rows, of the dtype of `like`, are `pitch` bytes apart and `vectors` registers long.
    """
    emit_pairs(code, tile, pitch, vectors, sums, rows, p, like, term)


def emit_pairs(
    code: Code, tile: Any, pitch: Any, vectors: Any, sums: Any, rows: Any, p: Any, like: Any, term: int
) -> None:
    """The code of `pairs_of_rows`."""
    builder, size = code.builder, _group(term)
    word = rows.type
    groups = builder.sdiv(rows, word(size))
    stride = builder.mul(rows, word(8))
    area = builder.mul(rows, stride)

    def row(index: Any) -> Any:
        return builder.add(tile, builder.mul(index, pitch))

    def block(i: Any, height: int, j: Any, breadth: int) -> None:
        def place(a: int, b: int, plane: int) -> Any:
            line = builder.mul(builder.add(i, word(a)), stride)
            column = builder.mul(builder.add(j, word(b)), word(8))
            return builder.add(builder.add(sums, builder.mul(area, word(plane))), builder.add(line, column))

        upper = [row(builder.add(i, word(a))) for a in range(height)]
        lower = [row(builder.add(j, word(b))) for b in range(breadth)]
        _block(code, term, p, upper, lower, vectors, place, like)

    tail = builder.mul(groups, word(size))
    with code.loop(groups) as group:
        i = builder.mul(group, word(size))
        if size > 1 or term == PRODUCT:
            block(i, size, i, 0)
        with code.loop(groups, builder.add(group, word(1))) as other:
            block(i, size, builder.mul(other, word(size)), size)
        if size > 1:
            with code.loop(rows, tail) as j:
                block(i, size, j, 1)
    if size > 1:
        # What is left over goes pair by pair: every shape of a block is code to be compiled.
        with code.loop(rows, tail) as i, code.loop(rows, i if term == PRODUCT else builder.add(i, word(1))) as j:
            block(i, 1, j, 1)


@emitted()
def one_pair(
    code: Code, first: Word, second: Word, vectors: Word, sums: Data, scale: Double, p: Double, like: Element, term: int
) -> None:
    """Add the sums of one pair of rows, of the dtype of `like` and times `scale`, in float64, to `sums`."""
    emit_pair(code, first, second, vectors, sums, scale, p, like, term)


def emit_pair(
    code: Code, first: Any, second: Any, vectors: Any, sums: Any, scale: Any, p: Any, like: Any, term: int
) -> None:
    """The code of `one_pair`."""
    factor, size = code.spread(scale), code.size(like) * DOUBLES

    def load(row: Any, step: Any) -> Lanes:
        return code.load(code.offset(row, step, size), like).widened() * factor

    def place(_a: int, _b: int, plane: int) -> Any:
        return code.offset(sums, plane, 8)

    _block(code, term, p, [first], [second], vectors, place, code.double_type, load)


@emitted()
def scale_rows(
    code: Code, sources: Data, start: Word, rows: Word, vectors: Word, tile: Data, pitch: Word, one: Double, two: Double
) -> None:
    """Copy registers of float32 rows, from `start` bytes on, times `one` and then `two`: one alone could overflow.

    Eight rows side by side: read one after the other, runs are too short for the processor's own prefetching.
    """
    builder, word, count = code.builder, rows.type, 2 * DOUBLES
    single = code.single_type
    factors = [code.spread(factor, count).narrowed(single) for factor in (one, two)]
    with rows_together(code, rows) as (low, high), code.loop(vectors) as step:
        here = builder.mul(step, word(REGISTER))
        with code.loop(high, low) as row:
            source = builder.add(builder.add(code.word(code.offset(sources, row, 8)), start), here)
            x = code.load(source, single, count)
            target = builder.add(builder.add(tile, here), builder.mul(row, pitch))
            code.store(x * factors[0] * factors[1], target)


def emit_point(
    code: Code,
    rows: Any,
    row: Callable[[Any], Any],
    vectors: Any,
    point: Any,
    sums: Any,
    p: Any,
    like: Any,
    term: int,
    centre: Any = None,
) -> None:
    """Add the sums of every row, which ``row(i)`` is the address of, with a point, to the vector (or planes) at `sums`.

    Rows are of type `like`, the point is a run of float64, and so is what is taken off the rows before, if anything.
    """
    builder, word, double = code.builder, rows.type, code.double_type
    size = 1 if term > EVERY or term == ANY else 4
    groups = builder.sdiv(rows, word(size))
    length = builder.mul(rows, word(8))

    def load(place: tuple[Any, Any, Any], step: Any) -> Lanes:
        address, element, less = place
        x = code.load(code.offset(address, step, code.size(element) * DOUBLES), element).widened()
        return x if less is None else x - code.load(code.offset(less, step, 8 * DOUBLES), double)

    def block(i: Any, height: int) -> None:
        def place(a: int, b: int, plane: int) -> Any:
            return builder.add(
                builder.add(sums, builder.mul(length, word(plane))), builder.mul(builder.add(i, word(a)), word(8))
            )

        upper = [(row(builder.add(i, word(a))), like, centre) for a in range(height)]
        _block(code, term, p, upper, [(point, double, None)], vectors, place, double, load)

    with code.loop(groups) as group:
        block(builder.mul(group, word(size)), size)
    if size > 1:
        with code.loop(rows, builder.mul(groups, word(size))) as i:
            block(i, 1)


@emitted()
def rows_and_point(
    code: Code, tile: Data, pitch: Word, vectors: Word, point: Data, sums: Data, rows: Word, p: Double, term: int
) -> None:
    """Add the sums of every row of a tile with a point to the vector (or planes) at `sums`."""

    def row(i: Any) -> Any:
        return code.builder.add(tile, code.builder.mul(i, pitch))

    emit_point(code, rows, row, vectors, point, sums, p, code.double_type, term)


@emitted()
def dots_about(
    code: Code, places: Data, vectors: Word, centre: Data, point: Data, sums: Data, rows: Word, like: Element
) -> None:
    """Add the inner products of every row less a centre with a point to the vector at `sums`."""

    def row(i: Any) -> Any:
        return code.word(code.offset(places, i, 8))

    emit_point(code, rows, row, vectors, point, sums, None, like, PRODUCT, centre)


@emitted()
def weigh(code: Code, places: Data, vectors: Word, weights: Data, rows: Word, out: Data, like: Element) -> None:
    """``out = sum_j weights_j row_j``, four registers at a time; rows of weight zero are skipped."""
    builder, word, zero, size = code.builder, rows.type, code.constant(0.0), code.size(like) * DOUBLES

    def stretch(first: Any, count: int) -> None:
        totals = [code.variable(zero) for _ in range(count)]
        with code.loop(rows) as row:
            weight = code.double(code.offset(weights, row, 8))
            with code.unless_zero(weight):
                source = builder.add(code.word(code.offset(places, row, 8)), builder.mul(first, word(size)))
                for part, total in enumerate(totals):
                    x = code.load(code.offset(source, part, size), like).widened()
                    total.set(code.spread(weight).times_plus(x, total.get()))
        for part, total in enumerate(totals):
            target = builder.add(out, builder.mul(first, word(8 * DOUBLES)))
            code.store(total.get(), code.offset(target, part, 8 * DOUBLES))

    fours = builder.ashr(vectors, word(2))
    with code.loop(fours) as four:
        stretch(builder.shl(four, word(2)), 4)
    with code.loop(vectors, builder.shl(fours, word(2))) as single:
        stretch(single, 1)


@emitted()
def shift_and_scale(code: Code, tile: Data, pitch: Word, vectors: Word, centre: Data, scales: Data, rows: Word) -> None:
    """``row_i = (row_i - centre) scales_i`` for every row of a tile."""
    builder = code.builder
    with code.loop(rows) as row:
        scale = code.spread(code.double(code.offset(scales, row, 8)))
        start = builder.add(tile, builder.mul(row, pitch))
        with code.loop(vectors) as step:
            place = code.offset(start, step, 8 * DOUBLES)
            x = code.load(place, code.double_type)
            c = code.load(code.offset(centre, step, 8 * DOUBLES), code.double_type)
            code.store((x - c) * scale, place)


@emitted()
def subtract_row(code: Code, tile: Data, pitch: Word, vectors: Word, centre: Data, rows: Word, like: Element) -> None:
    """``row_i = row_i - centre`` for every row of a tile of the type of `like`, register by register."""
    builder, count = code.builder, code.per_register(like)
    with code.loop(rows) as row:
        start = builder.add(tile, builder.mul(row, pitch))
        with code.loop(vectors) as step:
            place = code.offset(start, step, REGISTER)
            less = code.load(code.offset(centre, step, REGISTER), like, count)
            code.store(code.load(place, like, count) - less, place)
