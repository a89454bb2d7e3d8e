"""The first layer of a network on examples of which most numbers are zero, as pixels of handwritten digits are.

The forward pass adds multiples of short runs of float32, the weights of each pixel that is not zero. The sums stay in
registers. Each sum has a fixed order, so that the results repeat bit for bit. For the gradient the examples are written
with their zeros: a matrix product of BLAS is twice as fast as sums over the examples in which a pixel is not zero.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import ir, kernel, special_kernel, types
from mixtailor.kernels.lanes import REGISTER, Code, Data, Lanes, Word, emitted

__all__ = ["SINGLES", "Compressed", "compress", "dense", "laid_out", "products", "sum_runs"]

SINGLES = REGISTER // 4  # float32 numbers in a register
MOST = 13  # registers of sums; with a factor and a run, they fill the 16 that every processor with AVX has

Single = NDArray[np.float32]
Compressed = tuple[NDArray[np.int64], NDArray[np.uint16], Single]


def compress(examples: NDArray[Any], factor: float) -> Compressed:
    """Where the examples ``(count, width)`` are not zero, and `factor` times what is there.

    Examples
    --------
    >>> compress(np.array([[0, 3, 0], [1, 0, 2]], np.uint8), 0.5)
    (array([0, 1, 3]), array([1, 0, 2], dtype=uint16), array([1.5, 0.5, 1. ], dtype=float32))
    """
    numbers = np.count_nonzero(examples, axis=1)
    starts = np.zeros(len(examples) + 1, np.int64)
    np.cumsum(numbers, out=starts[1:])
    places, values = np.empty(starts[-1], np.uint16), np.empty(starts[-1], np.float32)
    _compress(examples, starts, np.float32(factor), places, values)
    return starts, places, values


@kernel
def _compress(examples: Any, starts: Any, factor: Any, places: Any, values: Any) -> None:
    for example in range(examples.shape[0]):
        at = starts[example]
        for place in range(examples.shape[1]):
            if examples[example, place] != 0:
                places[at], values[at] = place, factor * np.float32(examples[example, place])
                at += 1


@kernel
def laid_out(weight: Any, bias: Any, shift: Any, table: Any, base: Any) -> None:
    """Write ``weight.T`` to the first columns of `table`, and ``bias - shift times the sums of weight`` to `base`.

    These are what `products` takes for a layer on examples from which `shift` was subtracted. Numbers of `table` behind
    the units stay; they have to be zero.
    """
    units, width = weight.shape
    parts, blocks = units // SINGLES, width // SINGLES
    for part in range(parts):
        _turn(weight[part * SINGLES], weight.strides[0], blocks, table[0, part * SINGLES :], table.strides[0])
    for place in range(width):
        for unit in range(parts * SINGLES if place < blocks * SINGLES else 0, units):
            table[place, unit] = weight[unit, place]
    for unit in range(base.size):
        base[unit] = np.float32(0.0)
    for place in range(width):
        for unit in range(base.size):
            base[unit] += table[place, unit]
    for unit in range(units):
        base[unit] = bias[unit] - shift * base[unit]


def products(compressed: Compressed, chosen: NDArray[np.int64], table: Single, base: Single, out: Single) -> None:
    """``out[k] = base + sum over places of value times table[place]``, for each chosen example.

    Parameters
    ----------
    compressed : tuple
        As `compress` gives it.
    chosen : array
        ``(count,)``, which examples.
    table : array
        ``(width, pitch)``: one run of numbers for each place. The pitch fills whole registers.
    base : array
        ``(pitch,)``.
    out : array
        ``(count, pitch)``.
    """
    starts, places, values = compressed
    _products(table.shape[1] // SINGLES)(starts, places, values, chosen, table, base, out)


@functools.cache
def _products(registers: int) -> Any:
    @special_kernel(registers)
    def sparse_products(starts: Any, places: Any, values: Any, chosen: Any, table: Any, base: Any, out: Any) -> None:
        for k in range(chosen.size):
            low, high = starts[chosen[k]], starts[chosen[k] + 1]
            sum_runs(places, values, low, high, table, base, out[k], registers)

    return sparse_products


def dense(compressed: Compressed, chosen: NDArray[np.int64], shift: float, out: Single) -> None:
    """Write the chosen examples, with their zeros and less `shift`, to the rows of `out`.

    Parameters
    ----------
    compressed : tuple
        As `compress` gives it.
    chosen : array
        ``(count,)``, which examples.
    shift : float
        What is subtracted from all numbers of the examples.
    out : array
        ``(count, width)``; overwritten.

    Examples
    --------
    >>> out = np.empty((1, 3), np.float32)
    >>> dense(compress(np.array([[0, 3, 0]], np.uint8), 0.5), np.array([0]), 0.5, out)
    >>> out
    array([[-0.5,  1. , -0.5]], dtype=float32)
    """
    _dense(*compressed, chosen, np.float32(shift), out)


@kernel
def _dense(starts: Any, places: Any, values: Any, chosen: Any, shift: Any, out: Any) -> None:
    for k in range(chosen.size):
        out[k] = -shift
        for at in range(starts[chosen[k]], starts[chosen[k] + 1]):
            out[k, np.uint64(places[at])] = values[at] - shift  # unsigned: not tested for being counted from the end


@emitted(types.void)
def sum_runs(
    code: Code, places: Data, values: Data, low: Word, high: Word, table: Data, base: Data, out: Data, registers: int
) -> Any:
    """``out = base + sum of values[j] table[places[j]]``, low <= j < high; all runs are `registers` long."""
    builder, single, width = code.builder, code.single_type, REGISTER * registers
    for first in range(0, registers, MOST):
        parts = range(first, min(registers, first + MOST))
        sums = [code.variable(code.load(code.offset(base, part, REGISTER), single, SINGLES)) for part in parts]
        with code.loop(high, low) as j:
            place = builder.zext(_uint16(code, code.offset(places, j, 2)), low.type)
            run = code.offset(table, place, width)
            factor = code.spread(_single(code, code.offset(values, j, 4)), SINGLES)
            for part, total in zip(parts, sums, strict=True):
                x = code.load(code.offset(run, part, REGISTER), single, SINGLES)
                total.set(x.times_plus(factor, total.get()))
        for part, total in zip(parts, sums, strict=True):
            code.store(total.get(), code.offset(out, part, REGISTER))


@emitted(types.void)
def _turn(code: Code, tile: Data, pitch: Word, blocks: Word, out: Data, step: Word) -> Any:
    """Transpose square blocks, of one register a side, of a tile of as many rows that are `pitch` bytes apart; rows of
    `out` are `step` bytes apart."""
    builder, single = code.builder, code.single_type
    with code.loop(blocks) as block:
        here = code.offset(tile, block, REGISTER)
        rows = [
            code.load(builder.add(here, builder.mul(pitch, pitch.type(q))), single, SINGLES) for q in range(SINGLES)
        ]
        there = builder.add(out, builder.mul(builder.mul(block, step), step.type(SINGLES)))
        for unit, row in enumerate(_transposed(code, rows)):
            code.store(row, builder.add(there, builder.mul(step, step.type(unit))))


def _transposed(code: Code, rows: list[Lanes]) -> list[Lanes]:
    """Rows of a square block as its columns: in each step, pairs of rows 1, 2, 4, ... apart exchange halves."""
    count, apart = len(rows), 1
    while apart < count:
        low = [i + (0 if not i & apart else count - apart) for i in range(count)]
        high = [i + (apart if not i & apart else count) for i in range(count)]
        turned = list(rows)
        for i in range(count):
            if not i & apart:
                turned[i] = _shuffled(code, rows[i], rows[i + apart], low)
                turned[i + apart] = _shuffled(code, rows[i], rows[i + apart], high)
        rows, apart = turned, 2 * apart
    return rows


def _shuffled(code: Code, one: Lanes, other: Lanes, which: list[int]) -> Lanes:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(which)), which)
    return Lanes(code, code.builder.shuffle_vector(one.value, other.value, mask))


def _uint16(code: Code, address: Any) -> Any:
    return code.builder.load(code.builder.inttoptr(address, ir.IntType(16).as_pointer()))


def _single(code: Code, address: Any) -> Any:
    return code.builder.load(code.builder.inttoptr(address, code.single_type.as_pointer()))
