"""Weighted sums of rows, copies of rows, and which rows are finite."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import kernel, run_at, types
from mixtailor.kernels.lanes import DOUBLES, Code, Data, Element, Word, emitted
from mixtailor.kernels.tiles import empty_tile, fill, vectors_of

__all__ = ["combine", "finite_rows", "gather"]

RUN = 1024  # coordinates of many rows summed at a time: their float64 sums stay in the first-level cache
TOGETHER = 12  # rows read side by side
STRIP = 4 * DOUBLES  # columns in four registers of float64


@emitted(types.float64)
def _add_rows(
    code: Code,
    sources: Data,
    weights: Data,
    low: Word,
    high: Word,
    start: Word,
    strips: Word,
    totals: Data,
    out: Data,
    like: Element,
    target: Element,
    first: int,
    last: int,
) -> Any:
    """Rows `low` to `high`, from `start` bytes on, times their weights, on top of the float64 totals.

    The `first` group of rows starts from zero; the `last` one writes to `out`, of the dtype of `target`, what is a
    total for the others. Returns 0, or NaN where an answer is not finite.
    """
    builder, size = code.builder, code.size(like)
    parts = range(4)
    zero = code.constant(0.0, target)
    faults = [code.variable(zero) for _ in parts]
    with code.loop(strips) as strip:
        here = builder.add(start, builder.mul(strip, strip.type(STRIP * size)))
        place = code.offset(totals, strip, STRIP * 8)
        if first:
            sums = [code.variable(code.constant(0.0)) for _ in parts]
        else:
            sums = [code.variable(code.load(code.offset(place, part, 8 * DOUBLES), code.double_type)) for part in parts]
        with code.loop(high, low) as row:
            weight = code.spread(code.double(code.offset(weights, row, 8)))
            source = builder.add(code.word(code.offset(sources, row, 8)), here)
            for part, total in enumerate(sums):
                x = code.load(code.offset(source, part, size * DOUBLES), like).widened()
                total.set(x.times_plus(weight, total.get()))
        for part, total in enumerate(sums):
            if last:
                answer = total.get().narrowed(target)
                width = code.size(target) * DOUBLES
                code.store(answer, code.offset(code.offset(out, strip, 4 * width), part, width))
                faults[part].set(answer.times_plus(zero, faults[part].get()))
            else:
                code.store(total.get(), code.offset(place, part, 8 * DOUBLES))
    one, two, three, four = (fault.get() for fault in faults)
    return ((one + two) + (three + four)).widened().total()


@emitted(types.float64)
def _narrow(code: Code, totals: Data, out: Data, vectors: Word, target: Element) -> Any:
    """Write float64 totals in the dtype of `target`. Returns 0, or NaN where an answer is not finite."""
    zero = code.constant(0.0, target)
    fault = code.variable(zero)
    with code.loop(vectors) as step:
        x = code.load(code.offset(totals, step, 8 * DOUBLES), code.double_type).narrowed(target)
        code.store(x, code.offset(out, step, code.size(target) * DOUBLES))
        fault.set(x.times_plus(zero, fault.get()))  # 0 x infinity and 0 x NaN are NaN, and stay
    return fault.get().widened().total()


@kernel
def _write(totals: Any, length: int, answer: Any) -> bool:
    """Totals to their place; whether all are finite."""
    vectors = length // DOUBLES
    fault = _narrow(totals, answer, vectors, answer)
    for c in range(vectors * DOUBLES, length):
        answer[c] = totals[c]
        fault += np.float64(0.0 * answer[c])
    return bool(fault == 0.0)


@kernel
def _combine_one(addresses: Any, like: Any, width: int, weights: Any, out: Any) -> bool:
    """One weighted sum, straight from the rows: a dozen of them at a time, as many as are read well side by side."""
    used = np.flatnonzero(weights)
    sources, factors = addresses[used], weights[used]
    rows = used.size
    strips = width // STRIP
    totals = np.zeros(0)
    fault = 0.0
    if rows <= TOGETHER:
        fault = _add_rows(sources, factors, 0, rows, 0, strips, totals, out, like, out, 1, 1)
    else:
        totals = np.empty(RUN)
        for strip in range(0, strips, RUN // STRIP):
            count = min(RUN // STRIP, strips - strip)
            start = strip * STRIP * like.itemsize
            target = out[strip * STRIP :]
            _add_rows(sources, factors, 0, TOGETHER, start, count, totals, target, like, out, 1, 0)
            low = TOGETHER
            while rows - low > TOGETHER:
                _add_rows(sources, factors, low, low + TOGETHER, start, count, totals, target, like, out, 0, 0)
                low += TOGETHER
            fault += _add_rows(sources, factors, low, rows, start, count, totals, target, like, out, 0, 1)
    for c in range(strips * STRIP, width):
        total = 0.0
        for j in range(rows):
            total += factors[j] * run_at(sources[j], like, c, 1)[0]
        out[c] = total
        fault += np.float64(0.0 * out[c])
    return bool(fault == 0.0)


@emitted()
def _mix(
    code: Code, tile: Data, pitch: Word, vectors: Word, weights: Data, rows: Word, low: Word, out: Data, height: int
) -> None:
    """``out[r] = sum_j weights[low + r, j] row_j`` over a tile, for `height` rows of weights at once."""
    builder, word = code.builder, rows.type
    stride = builder.mul(rows, word(8))

    def strip(first: Any, breadth: int) -> None:
        start = builder.mul(first, word(8 * DOUBLES))
        sums = [[code.variable(code.constant(0.0)) for _ in range(breadth)] for _ in range(height)]
        with code.loop(rows) as row:
            source = builder.add(builder.add(tile, start), builder.mul(row, pitch))
            x = [code.load(code.offset(source, part, 8 * DOUBLES), code.double_type) for part in range(breadth)]
            for r, line in enumerate(sums):
                place = builder.add(weights, builder.mul(builder.add(low, word(r)), stride))
                weight = code.spread(code.double(code.offset(place, row, 8)))
                for part, total in enumerate(line):
                    total.set(weight.times_plus(x[part], total.get()))
        for r, line in enumerate(sums):
            target = builder.add(builder.add(out, start), builder.mul(pitch, word(r)))
            for part, total in enumerate(line):
                code.store(total.get(), code.offset(target, part, 8 * DOUBLES))

    pairs = builder.ashr(vectors, word(1))
    with code.loop(pairs) as pair:
        strip(builder.shl(pair, word(1)), 2)
    with code.loop(vectors, builder.shl(pairs, word(1))) as single:
        strip(single, 1)


@kernel
def _combine_many(addresses: Any, like: Any, width: int, weights: Any, out: Any) -> bool:
    """Several weighted sums from one reading: each tile meets all weights."""
    rows, answers = addresses.size, weights.shape[0]
    tile = empty_tile(rows)
    mixed = np.empty((4, tile.shape[1]))
    run = tile.shape[1] - 8
    finite = True
    for start in range(0, width, run):
        length = min(run, width - start)
        good = fill(addresses, like, start, length, tile)
        vectors = vectors_of(length)
        for low in range(0, answers, 4):
            high = min(low + 4, answers)
            if not good:
                # Zero times infinity is no number: where a row is not finite, weights of zero must be skipped.
                mixed[:] = 0.0
                for r in range(low, high):
                    for j in range(rows):
                        if weights[r, j] != 0.0:
                            for c in range(length):
                                mixed[r - low, c] += weights[r, j] * tile[j, c]
            elif high - low == 4:
                _mix(tile, tile.strides[0], vectors, weights, rows, low, mixed, 4)
            else:
                for r in range(low, high):
                    _mix(tile, tile.strides[0], vectors, weights, rows, r, mixed[r - low], 1)
            for r in range(low, high):
                finite &= _write(mixed[r - low], length, out[r, start : start + length])
    return finite


def combine(
    addresses: NDArray[np.intp], like: NDArray[Any], width: int, weights: NDArray[np.float64], out: NDArray[Any]
) -> bool:
    """``out[r] = sum_j weights[r, j] x_j``, in float64; rows of weight zero are not looked at.

    Returns whether every entry of `out` is finite.
    """
    weights = np.ascontiguousarray(weights, np.float64)
    if len(weights) == 1:
        return bool(_combine_one(addresses, like, width, weights[0], out[0]))
    return bool(_combine_many(addresses, like, width, weights, out))


@kernel
def gather(addresses: NDArray[np.intp], like: Any, width: int, out: Any) -> None:
    """Copy the rows into ``out``, (k, width), converting to its dtype."""
    for j in range(addresses.size):
        out[j] = run_at(addresses[j], like, 0, width)


@emitted(types.float64)
def _fault(code: Code, source: Word, quads: Word, like: Element) -> Any:
    """0, or NaN where one of the numbers from `source` on is not finite."""
    count = code.per_register(like)
    zero = code.constant(0.0, like, count)
    faults = [code.variable(zero) for _ in range(4)]  # four chains: one alone would wait for its own additions
    with code.loop(quads) as quad:
        for part, fault in enumerate(faults):
            place = code.offset(code.offset(source, quad, 4 * count * code.size(like)), part, count * code.size(like))
            fault.set(code.load(place, like, count).times_plus(zero, fault.get()))
    first, second, third, fourth = (fault.get() for fault in faults)
    return ((first + second) + (third + fourth)).widened().total()


@kernel
def finite_rows(addresses: NDArray[np.intp], like: Any, width: int) -> NDArray[np.bool_]:
    """Whether each row's run is finite."""
    answer = np.empty(addresses.size, np.bool_)
    step = 4 * 8 * DOUBLES // like.itemsize
    for j in range(addresses.size):
        row = run_at(addresses[j], like, 0, width)
        fault = _fault(addresses[j], width // step, like)
        for c in range(width // step * step, width):
            fault += np.float64(0.0 * row[c])
        answer[j] = fault == 0.0
    return answer
