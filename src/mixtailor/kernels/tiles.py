"""Tiles: a run of every row as float64, side by side, where the first- or second-level cache holds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import copy, helper, inlined, run_at, types
from mixtailor.kernels.lanes import DOUBLES, Code, Data, Element, Word, emitted

__all__ = ["PER", "fill", "places_of", "rows_together", "vectors_of"]

PER = 2 * DOUBLES  # float32 numbers in a register
TOGETHER = 8  # rows read side by side: as many streams as the processor's prefetching follows without conflicts


@inlined
def places_of(addresses: Any, like: Any, start: int, length: int, edge: Any, places: Any) -> None:
    """Where the rows' runs are; those that do not fill their last register are copied, with zeros behind them."""
    for i in range(addresses.size):
        if length % PER == 0:
            places[i] = addresses[i] + start * like.itemsize
        else:
            copy(run_at(addresses[i], like, start, length), edge[i], length)
            places[i] = edge[i].ctypes.data


@inlined
def vectors_of(length: int) -> int:
    """How many registers hold a run, the last one filled up with zeros."""
    return (length + DOUBLES - 1) // DOUBLES


@contextmanager
def rows_together(code: Code, rows: Word) -> Iterator[tuple[Word, Word]]:
    """A loop over groups of rows; the first of a group, and the one after its last."""
    builder, word = code.builder, rows.type
    groups = builder.sdiv(builder.add(rows, word(TOGETHER - 1)), word(TOGETHER))
    with code.loop(groups) as group:
        low = builder.mul(group, word(TOGETHER))
        high = builder.add(low, word(TOGETHER))
        yield low, builder.select(builder.icmp_signed("<", high, rows), high, rows)


@emitted(types.float64)
def _widen(
    code: Code, sources: Data, start: Word, rows: Word, vectors: Word, tile: Data, pitch: Word, like: Element
) -> Any:
    """Copy `vectors` pairs of registers of each row, from `start` bytes on, as float64. Returns 0, or NaN for a fault.

    Eight rows side by side, a cache line of each: read one row after the other, runs are too short for the
    processor's own prefetching, and reading takes half as long again.
    """
    builder, word, zero = code.builder, rows.type, code.constant(0.0)
    size = 4 if code.is_single(like) else 8
    faults = [code.variable(zero) for _ in range(2)]
    with rows_together(code, rows) as (low, high), code.loop(vectors) as step:
        source = builder.add(start, builder.mul(step, word(2 * size * DOUBLES)))
        target = builder.add(tile, builder.mul(step, word(2 * 8 * DOUBLES)))
        with code.loop(high, low) as row:
            here = builder.add(code.word(code.offset(sources, row, 8)), source)
            there = builder.add(target, builder.mul(row, pitch))
            for half in range(2):
                x = code.load(code.offset(here, half, size * DOUBLES), like).widened()
                code.store(x, code.offset(there, half, 8 * DOUBLES))
                # 0 x infinity and 0 x NaN are NaN, and stay.
                faults[half].set(x.times_plus(zero, faults[half].get()))
    return (faults[0].get() + faults[1].get()).total()


@helper
def fill(addresses: NDArray[np.intp], like: Any, start: int, length: int, tile: Any) -> bool:
    """Load columns ``start`` to ``start + length`` of all rows, zeros up to the next whole register.

    Returns whether all of them are finite.
    """
    pairs = length // (2 * DOUBLES)
    rows = addresses.size
    fault = _widen(addresses, start * like.itemsize, rows, pairs, tile, tile.strides[0], like)
    done = pairs * 2 * DOUBLES
    if done < length:
        for j in range(rows):
            row = run_at(addresses[j], like, start, length)
            target = tile[j]
            for c in range(done, vectors_of(length) * DOUBLES):
                target[c] = row[c] if c < length else 0.0
                fault += 0.0 * target[c]
    return bool(fault == 0.0)
