"""Weighted sums of rows, copies of rows, and which rows are finite."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import copy, kernel, run_at, types
from mixtailor.kernels.lanes import DOUBLES, Code, Data, Element, Word, emitted

__all__ = ["combine", "finite_rows", "gather", "mix_run"]

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


@kernel
def _combine_one(addresses: Any, like: Any, width: int, weights: Any, out: Any) -> bool:
    """One weighted sum, straight from the rows: a dozen of them at a time, as many as are read well side by side."""
    sources, factors = np.empty(addresses.size, np.intp), np.empty(addresses.size)
    rows = 0
    for j in range(addresses.size):
        if weights[j] != 0.0:
            sources[rows], factors[rows] = addresses[j], weights[j]
            rows += 1
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


@emitted(types.float64)
def _mix(
    code: Code,
    sources: Data,
    start: Word,
    strips: Word,
    weights: Data,
    rows: Word,
    answers: Word,
    out: Data,
    pitch: Word,
    like: Element,
    target: Element,
) -> Any:
    """``out[r] = sum_j weights[r, j] row_j`` from `start` bytes on, in strips of two registers of float64.

    Rows of `out`, of the dtype of `target`, are `pitch` bytes apart. Returns 0, or NaN where one is not finite. Four
    sums grow at a time, and the rows are widened again for each four: they are in the first-level cache by then.
    """
    builder, word, zero = code.builder, rows.type, code.constant(0.0, target)
    stride, size, width = builder.mul(rows, word(8)), code.size(like) * DOUBLES, code.size(target) * DOUBLES
    faults = [code.variable(zero) for _ in range(8)]

    def grow(strip: Any, low: Any, height: int) -> None:
        here = builder.add(start, builder.mul(strip, word(2 * size)))
        lines = builder.add(weights, builder.mul(low, stride))
        sums = [[code.variable(code.constant(0.0)) for _ in range(2)] for _ in range(height)]
        with code.loop(rows) as row:
            source = builder.add(code.word(code.offset(sources, row, 8)), here)
            x = [code.load(code.offset(source, part, size), like).widened() for part in range(2)]
            for r, line in enumerate(sums):
                place = builder.add(lines, builder.mul(stride, word(r)))
                weight = code.spread(code.double(code.offset(place, row, 8)))
                for part, total in enumerate(line):
                    total.set(weight.times_plus(x[part], total.get()))
        there = builder.add(builder.add(out, builder.mul(strip, word(2 * width))), builder.mul(low, pitch))
        for r, line in enumerate(sums):
            for part, total in enumerate(line):
                answer = total.get().narrowed(target)
                code.store(answer, builder.add(code.offset(there, part, width), builder.mul(pitch, word(r))))
                fault = faults[2 * r + part]
                fault.set(answer.times_plus(zero, fault.get()))  # 0 x infinity and 0 x NaN are NaN, and stay

    fours = builder.ashr(answers, word(2))
    with code.loop(strips) as strip:
        with code.loop(fours) as four:
            grow(strip, builder.shl(four, word(2)), 4)
        with code.loop(answers, builder.shl(fours, word(2))) as single:
            grow(strip, single, 1)
    total = faults[0].get()
    for fault in faults[1:]:
        total = total + fault.get()
    return total.widened().total()


@kernel
def mix_run(addresses: Any, like: Any, start: int, length: int, weights: Any, out: Any) -> bool:
    """``out[r, c] = sum_j weights[r, j] x_j[start + c]`` for c below `length`; whether all of that is finite."""
    rows, answers = addresses.size, weights.shape[0]
    strips = length // (2 * DOUBLES)
    where = start * like.itemsize
    fault = _mix(addresses, where, strips, weights, rows, answers, out, out.strides[0], like, out)
    # Where a row is not finite, all is done again: zero times infinity is no number, so weights of zero are skipped.
    done = strips * 2 * DOUBLES if fault == 0.0 else 0
    fault = 0.0
    if done < length:
        for r in range(answers):
            for c in range(done, length):
                total = 0.0
                for j in range(rows):
                    if weights[r, j] != 0.0:
                        total += weights[r, j] * run_at(addresses[j], like, start + c, 1)[0]
                out[r, c] = total
                fault += np.float64(0.0 * out[r, c])
    return bool(fault == 0.0)


def combine(
    addresses: NDArray[np.intp], like: NDArray[Any], width: int, weights: NDArray[np.float64], out: NDArray[Any]
) -> bool:
    """``out[r] = sum_j weights[r, j] x_j``, in float64; rows of weight zero are not looked at.

    Returns whether every entry of `out` is finite.
    """
    weights = np.ascontiguousarray(weights, np.float64)
    if len(weights) == 1:
        return bool(_combine_one(addresses, like, width, weights[0], out[0]))
    return bool(mix_run(addresses, like, 0, width, weights, out))


@kernel
def gather(addresses: NDArray[np.intp], like: Any, width: int, out: Any) -> None:
    """Copy the rows into ``out``, (k, width), converting to its dtype."""
    for j in range(addresses.size):
        copy(run_at(addresses[j], like, 0, width), out[j], width)


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
