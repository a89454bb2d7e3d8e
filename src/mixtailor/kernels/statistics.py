"""Statistics of sorted columns, emitted for a known number of rows, all in registers, or as loops over a tile."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from mixtailor.kernels._numba import address_of
from mixtailor.kernels.lanes import Code, Data, Element, Lanes, Word, emitted
from mixtailor.kernels.networks import comparators, middle

__all__ = ["AROUND", "MEDIAN", "TRIMMED", "call_network", "columns_of_tile", "network_at", "plan", "sort_tile"]

MEDIAN, TRIMMED, AROUND = 0, 1, 2

_SMALL = 2.0**-11  # float64 sums of up to 2048 rows, scaled by this, cannot overflow


def plan(rows: int, kind: int, trim: int, keep: int) -> tuple[frozenset[int], frozenset[int]]:
    """Which ranks a statistic needs in their places, and which it only sums."""
    everything = frozenset(range(rows))
    centre = frozenset(middle(rows))
    trimmed = frozenset(range(trim, rows - trim)) if trim >= 0 else frozenset()
    if kind == MEDIAN:
        return centre, frozenset()
    if kind == TRIMMED:
        return frozenset(), trimmed
    # Ranks that every window holds are only summed, by the centre too or not at all.
    always = frozenset(range(rows - keep, keep)) - centre if trim < 0 else frozenset(range(rows - keep, keep)) & trimmed
    return everything - always, always


def _add(sums: Sequence[Lanes], x: Lanes) -> list[Lanes]:
    """Sums with one value more: the second one, for float64 rows, is of scaled values and does not overflow."""
    wide = x.widened()
    scaled = [sums[1] + wide * x.code.constant(_SMALL, count=x.count)] if len(sums) > 1 else []
    return [sums[0] + wide, *scaled]


def _start(code: Code, like: Element) -> list[Lanes]:
    zero = code.constant(0.0, count=code.per_register(like))
    return [zero] if code.is_single(like) else [zero, zero]


def _mean(sums: Sequence[Lanes], count: Lanes) -> Lanes:
    """A mean in float64. For float64 rows a sum that overflowed gives way to the scaled one."""
    if len(sums) == 1:
        # Rounding twice in float64 is below what float32 shows, and a product is much faster than a division.
        return sums[0] * (count.code.constant(1.0, count=count.count) / count)
    plain = sums[0] / count
    code, lanes = plain.code, plain.count
    most = code.constant(1.7976931348623157e308, count=lanes)
    least = code.constant(-1.7976931348623157e308, count=lanes)
    # A mean lies between its values: only a rounding can lift it above the largest number.
    careful = (sums[1] / count * code.constant(1 / _SMALL, count=lanes)).smaller(most).larger(least)
    return (abs(sums[0]) < code.constant(math.inf, count=lanes)).choose(plain, careful)


def _centre(code: Code, like: Element, low: Lanes, high: Lanes) -> Lanes:
    """The mean of the two middle values, which for odd n are one."""
    sums = _add(_add(_start(code, like), low), high)
    return _mean(sums, code.constant(2.0, count=low.count))


def _enters(low: Lanes, high: Lanes, centre: Lanes) -> Lanes:
    """Whether `high` is nearer to the centre than `low`: then the window moves up."""
    return (high.widened() - centre) < (centre - low.widened())


@functools.cache
def network_at(rows: int, kind: int, trim: int, keep: int, single: int) -> int:
    """The address of a statistic of float32 or float64 rows, for `call_network`: see `mixtailor.kernels.addresses`."""

    def network(sources: Any, vectors: Any, out: Any, fault: Any) -> None:
        _columns_in_registers(sources, vectors, out, fault, rows, kind, trim, keep, single)

    return address_of(network, "void(intp, intp, intp, intp)", rows, kind, trim, keep, single)


@emitted()
def call_network(code: Code, function: Word, sources: Data, vectors: Word, out: Word, fault: Data) -> None:
    """A statistic of `vectors` registers of columns of rows at the addresses `sources`, written to `out`.

    Adds 0 to `fault`, or NaN where an entry is not finite.
    """
    code.call(function, sources, vectors, out, fault)


@emitted()
def _columns_in_registers(
    code: Code,
    sources: Word,
    vectors: Word,
    out: Word,
    fault: Word,
    rows: int,
    kind: int,
    trim: int,
    keep: int,
    single: int,
) -> None:
    """The rows are read side by side, each value once."""
    like = code.single_type if single else code.double_type
    builder, count, size = code.builder, code.per_register(like), code.size(like)
    zero = code.constant(0.0, like, count)
    faults = [code.variable(zero) for _ in range(4)]
    with code.loop(vectors) as step:
        here = builder.mul(step, step.type(count * size))
        x = [code.load(builder.add(code.word(code.offset(sources, row, 8)), here), like, count) for row in range(rows)]
        for row in range(rows):
            faults[row % 4].set(
                x[row].times_plus(zero, faults[row % 4].get())
            )  # NaN for anything not finite, and stays
        for a, b in comparators(rows, *plan(rows, kind, trim, keep)):
            x[a], x[b] = x[a].smaller(x[b]), x[a].larger(x[b])
        answer = _statistic(code, like, x, kind, trim, keep)
        code.store(answer.narrowed(like), code.offset(out, step, count * size))
    first, second, third, fourth = (each.get() for each in faults)
    code.add_double(((first + second) + (third + fourth)).widened().total(), fault)


def _mean_of(code: Code, like: Element, values: Sequence[Lanes]) -> Lanes:
    sums = _start(code, like)
    for value in values:
        sums = _add(sums, value)
    return _mean(sums, code.constant(float(len(values)), count=values[0].count))


def _first(shared: frozenset[int], ranks: range, values: Sequence[Lanes]) -> list[Lanes]:
    """Values by rank, those that centre and window share before all others: their sum is then computed once."""
    return [values[rank] for rank in sorted(ranks, key=lambda rank: (rank not in shared, rank))]


def _statistic(code: Code, like: Element, x: Sequence[Lanes], kind: int, trim: int, keep: int) -> Lanes:
    rows = len(x)
    low, high = middle(rows)
    shared = plan(rows, kind, trim, keep)[1] if trim >= 0 else frozenset()
    if kind == TRIMMED or (kind == AROUND and trim >= 0):
        centre = _mean_of(code, like, _first(shared, range(trim, rows - trim), x))
    else:
        centre = x[low] if low == high else _centre(code, like, x[low], x[high])
    if kind != AROUND:
        return centre
    centre = centre.widened()
    window = list(x[:keep])
    for leaves in range(rows - keep):
        enters = x[leaves + keep]
        slot = leaves % keep
        window[slot] = _enters(x[leaves], enters, centre).choose(enters, window[slot])
    return _mean_of(code, like, _first(shared, range(keep), window))


@emitted()
def sort_tile(code: Code, tile: Data, pitch: Word, vectors: Word, pairs: Data, count: Word, like: Element) -> None:
    """Apply `count` comparators, pairs of row offsets in bytes, to `vectors` registers of every row of a tile."""
    builder, lanes = code.builder, code.per_register(like)
    bytes_ = lanes * code.size(like)
    with code.loop(count) as index:
        place = code.offset(pairs, index, 16)
        one = builder.add(tile, code.word(place))
        two = builder.add(tile, code.word(code.offset(place, 1, 8)))
        with code.loop(vectors) as step:
            here, there = code.offset(one, step, bytes_), code.offset(two, step, bytes_)
            x, y = code.load(here, like, lanes), code.load(there, like, lanes)
            code.store(x.smaller(y), here)
            code.store(x.larger(y), there)


@emitted()
def columns_of_tile(
    code: Code,
    tile: Data,
    pitch: Word,
    vectors: Word,
    out: Data,
    rows: Word,
    trim: Word,
    keep: Word,
    like: Element,
    kind: int,
    trimmed: int,
) -> None:
    """A statistic of a tile of sorted columns. `trimmed` says whether the centre is the trimmed mean."""
    builder, count, word = code.builder, code.per_register(like), rows.type
    width = count * code.size(like)

    def mean(base: Any, low: Any, high: Any) -> Lanes:
        sums = [code.variable(zero) for zero in _start(code, like)]
        with code.loop(high, low) as rank:
            x = code.load(builder.add(base, builder.mul(rank, pitch)), like, count)
            for variable, value in zip(sums, _add([each.get() for each in sums], x), strict=True):
                variable.set(value)
        number = builder.sitofp(builder.sub(high, low), code.double_type)
        return _mean([each.get() for each in sums], code.spread(number, count))

    with code.loop(vectors) as step:
        base = code.offset(tile, step, width)
        if trimmed:
            centre = mean(base, trim, builder.sub(rows, trim))
        else:
            low = builder.sdiv(builder.sub(rows, word(1)), word(2))
            high = builder.sdiv(rows, word(2))
            values = [code.load(builder.add(base, builder.mul(rank, pitch)), like, count) for rank in (low, high)]
            centre = _centre(code, like, *values)
        if kind == AROUND:
            with code.loop(builder.sub(rows, keep)) as leaves:
                enters = builder.add(leaves, keep)
                slot = builder.srem(leaves, keep)
                low_x, high_x, kept = (
                    code.load(builder.add(base, builder.mul(rank, pitch)), like, count)
                    for rank in (leaves, enters, slot)
                )
                chosen = _enters(low_x, high_x, centre).choose(high_x, kept)
                code.store(chosen, builder.add(base, builder.mul(slot, pitch)))
            centre = mean(base, word(0), keep)
        code.store(centre.narrowed(like), code.offset(out, step, width))
