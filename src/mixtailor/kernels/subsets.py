"""Sums of many subsets of the rows: what nearest-neighbour mixing makes, where each new row is a mean of some rows.

Rows are taken five at a time. All 32 sums of a group are formed once, over a register of columns, and every subset
picks one of them: an addition for five rows, where a product of matrices takes five multiplications. Rows outside a
subset take no part in its sum, so a far row costs the others no digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import kernel, types
from mixtailor.kernels.combinations import mix_run
from mixtailor.kernels.distances import aligned
from mixtailor.kernels.lanes import DOUBLES, Code, Data, Element, Word, emitted

__all__ = ["FEWEST", "codes_of", "means_of_subsets"]

FEWEST = 100  # rows; below, a product of matrices is as fast
GROUP = 5
ENTRIES = 1 << GROUP
GROUPS = 8  # side by side: their tables stay in the first-level cache
BYTES = 8 * DOUBLES  # of a register


def codes_of(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint8], NDArray[np.float64]] | None:
    """Which of the 32 sums of each group each row of weights takes, (m, groups), and the weight of its rows.

    None where a row has unequal weights other than zero, which no sum of a subset has.
    """
    largest = weights.max(axis=1)
    member = weights != 0.0
    if not (largest > 0.0).all() or not (member == (weights == largest[:, None])).all():
        return None
    groups = -(-weights.shape[1] // (GROUP * GROUPS)) * GROUPS
    wide = np.zeros((len(weights), groups * GROUP), np.uint8)
    wide[:, : weights.shape[1]] = member
    places = np.array([1 << k for k in range(GROUP)], np.uint8)
    return np.ascontiguousarray(
        (wide.reshape(len(weights), groups, GROUP) * places).sum(axis=2, dtype=np.uint8)
    ), largest


@emitted()
def _tables(code: Code, sources: Data, rows: Word, first: Word, start: Word, table: Data, like: Element) -> None:
    """All sums of each group of the rows from `first` on, over a register of columns; after the last row are zeros."""
    builder, word = code.builder, rows.type
    zero = code.constant(0.0)
    with code.loop(GROUPS) as group:
        base = builder.add(table, builder.mul(group, word(ENTRIES * BYTES)))
        code.store(zero, base)
        for k in range(GROUP):
            row = builder.add(first, builder.add(builder.mul(group, word(GROUP)), word(k)))
            inside = builder.icmp_signed("<", row, rows)
            x = code.variable(zero)
            with builder.if_then(inside):
                place = builder.add(code.word(code.offset(sources, row, 8)), start)
                x.set(code.load(place, like).widened())
            value = x.get()
            for entry in range(1 << k):
                known = code.load(code.offset(base, entry, BYTES), code.double_type)
                code.store(known + value, code.offset(base, entry + (1 << k), BYTES))


@emitted()
def _add_sums(code: Code, codes: Data, pitch: Word, first: Word, table: Data, answers: Word, sums: Data) -> None:
    """Add to every subset's sum its share of the groups from `first` on."""
    builder, word = code.builder, answers.type
    with code.loop(answers) as answer:
        place = code.offset(sums, answer, BYTES)
        total = code.load(place, code.double_type)
        own = builder.add(builder.add(codes, builder.mul(answer, pitch)), first)
        for group in range(GROUPS):
            entry = code.byte(code.offset(own, group, 1))
            total = total + code.load(
                builder.add(table, builder.add(word(group * ENTRIES * BYTES), builder.mul(entry, word(BYTES)))),
                code.double_type,
            )
        code.store(total, place)


@emitted(types.float64)
def _finish(
    code: Code, sums: Data, scales: Data, answers: Word, out: Data, pitch: Word, start: Word, target: Element
) -> Any:
    """Write the sums, each times its scale, to columns of `out`; 0, or NaN where one is not finite."""
    builder = code.builder
    zero = code.constant(0.0, target)
    fault = code.variable(zero)
    with code.loop(answers) as answer:
        scale = code.spread(code.double(code.offset(scales, answer, 8)))
        value = (code.load(code.offset(sums, answer, BYTES), code.double_type) * scale).narrowed(target)
        code.store(value, builder.add(builder.add(out, builder.mul(answer, pitch)), start))
        fault.set(value.times_plus(zero, fault.get()))  # 0 x infinity and 0 x NaN are NaN, and stay
    return fault.get().widened().total()


@kernel
def _means(addresses: Any, like: Any, strips: int, codes: Any, scales: Any, table: Any, sums: Any, out: Any) -> float:
    rows, (answers, groups) = addresses.size, codes.shape
    fault = 0.0
    for strip in range(strips):
        for i in range(answers):
            for c in range(DOUBLES):
                sums[i, c] = 0.0
        for first in range(0, groups, GROUPS):
            _tables(addresses, rows, first * GROUP, strip * DOUBLES * like.itemsize, table, like)
            _add_sums(codes, codes.strides[0], first, table, answers, sums)
        fault += _finish(sums, scales, answers, out, out.strides[0], strip * DOUBLES * out.itemsize, out)
    return fault


def means_of_subsets(
    addresses: NDArray[np.intp],
    like: NDArray[Any],
    width: int,
    weights: NDArray[np.float64],
    codes: NDArray[np.uint8],
    scales: NDArray[np.float64],
    out: NDArray[Any],
) -> bool:
    """``out = weights @ x``, summed in float64, for weights that `codes_of` has codes for; whether all is finite."""
    whole = width // DOUBLES * DOUBLES
    table, sums = aligned(GROUPS * ENTRIES, DOUBLES, np.float64), aligned(len(codes), DOUBLES, np.float64)
    good = _means(addresses, like, whole // DOUBLES, codes, scales, table, sums, out) == 0.0
    if whole < width:
        tail = np.empty((len(codes), width - whole), out.dtype)
        good = bool(mix_run(addresses, like, whole, width - whole, weights, tail)) and good
        out[:, whole:] = tail
    return bool(good)
