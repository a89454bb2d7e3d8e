"""Sums over pairs of rows, a block of pairs at a time: every row that is loaded meets several others in registers."""

from __future__ import annotations

from typing import Any

from mixtailor.kernels.lanes import DOUBLES, Code, Lanes, emitted

__all__ = ["MAXIMUM", "PRODUCT", "block_sums"]

MAXIMUM, PRODUCT = 0, -1

# x^p = x^a x^b with the shortest chains: at most four products before the last, which is fused with the sum.
_SPLIT = {3: (2, 1), 5: (4, 1), 7: (4, 3), 9: (8, 1), 10: (8, 2), 11: (8, 3), 13: (12, 1), 14: (12, 2), 15: (12, 3)}


def split(p: int) -> tuple[int, int]:
    """How the power p is a product of two lower ones."""
    return _SPLIT.get(p, (p // 2, p // 2) if p % 2 == 0 else (p - 1, 1))


def power(x: Lanes, p: int, known: dict[int, Lanes]) -> Lanes:
    """``x^p``; the powers on the way stay in `known`."""
    if p == 1:
        return x
    if p not in known:
        a, b = split(p)
        known[p] = power(x, a, known) * power(x, b, known)
    return known[p]


def plus_term(term: int, x: Lanes, y: Lanes, total: Lanes) -> Lanes:
    """``total`` and what one pair of registers adds to it."""
    if term == PRODUCT:
        return x.times_plus(y, total)
    difference = x - y
    if term == MAXIMUM:
        # As integers, |x| keeps its order and NaN lies above infinity: a faulty row cannot hide.
        return abs(difference).bits().larger_bits(total)
    if term % 4 == 0 and term % 8 == 0:
        base = difference
    else:
        base = abs(difference)
    whole, quarters = divmod(term, 4)
    known: dict[int, Lanes] = {}
    if quarters == 0:
        if whole == 1:
            return total + base
        a, b = split(whole)
        return power(base, a, known).times_plus(power(base, b, known), total)
    root = base.root()
    part = {1: lambda: root.root(), 2: lambda: root, 3: lambda: root * root.root()}[quarters]()
    return part.times_plus(power(base, whole, known), total)


@emitted()
def block_sums(
    code: Code, first: Any, second: Any, pitch: Any, vectors: Any, sums: Any, stride: Any, height: int, breadth: int, term: int
) -> None:
    """Add the sums of `height` rows from `first` on with `breadth` rows from `second` on to a matrix of sums.

    Rows are `pitch` bytes apart, rows of `sums` `stride` bytes. A breadth of zero means the pairs i < j among the rows
    from `first` on, for products with i = j.
    """
    builder = code.builder
    triangle = breadth == 0
    extra = 0 if term == PRODUCT else 1
    pairs = [(a, b) for a in range(height) for b in range(a + extra if triangle else 0, height if triangle else breadth)]
    rows = [builder.add(first, builder.mul(pitch, pitch.type(a))) for a in range(height)]
    others = rows if triangle else [builder.add(second, builder.mul(pitch, pitch.type(b))) for b in range(breadth)]
    zero = code.constant(0.0)
    totals = {pair: code.variable(zero.bits() if term == MAXIMUM else zero) for pair in pairs}
    element = zero.value.type.element
    with code.loop(vectors) as step:
        x = [code.load(code.offset(row, step, 8 * DOUBLES), element) for row in rows]
        y = x if triangle else [code.load(code.offset(row, step, 8 * DOUBLES), element) for row in others]
        for a, b in pairs:
            totals[a, b].set(plus_term(term, x[a], y[b], totals[a, b].get()))
    for a, b in pairs:
        place = code.offset(builder.add(sums, builder.mul(stride, stride.type(a))), b, 8)
        if term == MAXIMUM:
            code.raise_word(totals[a, b].get().largest_bits(), place)
        else:
            code.add_double(totals[a, b].get().total(), place)
