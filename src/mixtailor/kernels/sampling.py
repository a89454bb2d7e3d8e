"""Coordinates drawn without replacement, and rows on a few coordinates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import ir, kernel, run_at, types
from mixtailor.kernels.lanes import Code, Word, emitted

__all__ = ["draw", "pick"]

Indices = NDArray[np.intp]

_MOST = 1 << 32  # a draw takes 32 random bits
_WORDS = 1 << 64


@kernel
def _mark(bits: Any, d: int, wanted: int, marked: int, marks: Any) -> int:
    """Mark coordinates by random bits until so many are marked or no bits are left; how many are marked then.

    A coordinate is the upper half of 32 bits times d; the few lower halves that would favour some are drawn again
    (Lemire, "Fast Random Integer Generation in an Interval", 2019).
    """
    favoured = np.uint64(_MOST % d)
    for number in bits:
        if marked == wanted:
            break
        product = np.uint64(number) * np.uint64(d)
        if (product & np.uint64(_MOST - 1)) >= favoured:
            place = np.int64(product >> np.uint64(32))
            bit = np.int64(1) << (place & 63)
            marked += int(marks[place >> 6] & bit == 0)
            marks[place >> 6] |= bit
    return marked


@emitted(types.int64)
def _lowest(code: Code, word: Word) -> Any:
    """The place of the lowest bit that is set."""
    return code.builder.cttz(word, ir.IntType(1)(1))


@kernel
def _listed(marks: Any, marked: bool, count: int) -> Any:
    """The first `count` coordinates that are marked, or that are not, in order."""
    places = np.empty(count, np.intp)
    found = 0
    for index in range(marks.size):
        word = marks[index] if marked else ~marks[index]
        while word != 0 and found < count:
            places[found] = 64 * index + _lowest(word)
            word &= word - 1
            found += 1
    return places


def draw(random: np.random.Generator, d: int, count: int) -> Indices:
    """`count` of d coordinates, every set of them equally likely, in order; fewer than all of them.

    They are marked in d bits, which are a thirty-second of a row, where a permutation would be two rows.

    Examples
    --------
    >>> draw(np.random.default_rng(0), 10, 4)
    array([2, 5, 6, 8])
    """
    if d >= _MOST:
        return np.sort(random.choice(d, size=count, replace=False, shuffle=False))
    leave_out = 2 * count > d
    wanted = d - count if leave_out else count
    marks, marked = np.zeros((d + 63) // 64, np.int64), 0
    while marked < wanted:
        # As many as are expected to be needed until all are marked, and some more: they nearly always suffice.
        words = 16 + int(0.51 * d * math.log((d - marked) / (d - wanted)))
        bits = random.integers(0, _WORDS, size=words, dtype=np.uint64).view(np.uint32)
        marked = _mark(bits, d, wanted, marked, marks)
    return _listed(marks, not leave_out, count)  # type: ignore[no-any-return]  # compiled, so untyped


@kernel
def pick(addresses: Indices, like: Any, width: int, which: Indices, out: Any) -> None:
    """Copy some coordinates of each row into ``out``, (k, len(which))."""
    for j in range(addresses.size):
        row = run_at(addresses[j], like, 0, width)
        for c in range(which.size):
            out[j, c] = row[which[c]]
