"""Networks that sort columns: comparisons whose order does not depend on the data, so that registers can do them."""

from __future__ import annotations

import functools
from collections.abc import Iterator

__all__ = ["comparators", "middle"]


def _batcher(n: int) -> Iterator[tuple[int, int]]:
    """Batcher's merge exchange (Knuth, The Art of Computer Programming 3, algorithm 5.2.2M): sorts any n wires."""
    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            yield from ((i, i + d) for i in range(n - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


@functools.cache
def comparators(n: int, ordered: frozenset[int], summed: frozenset[int]) -> tuple[tuple[int, int], ...]:
    """The comparisons that are needed to have the ranks `ordered` in their places, the ranks `summed` in any order.

    The smaller value goes to the first wire of a pair. Read from the end, a comparison is not needed when nobody looks
    at its two outputs, or when both are only summed.

    Examples
    --------
    The median of three takes all three comparisons; the smallest of three takes two.

    >>> comparators(3, frozenset({1}), frozenset())
    ((0, 2), (0, 1), (1, 2))
    >>> comparators(3, frozenset({0}), frozenset())
    ((0, 2), (0, 1))
    """
    ordered_now, summed_now = set(ordered), set(summed - ordered)
    kept: list[tuple[int, int]] = []
    for pair in reversed(list(_batcher(n))):
        wires = set(pair)
        if wires & ordered_now or (wires & summed_now and not wires <= summed_now):
            kept.append(pair)
            ordered_now |= wires
            summed_now -= wires
    return tuple(reversed(kept))


def middle(n: int) -> tuple[int, int]:
    """The two ranks whose mean is the median; for odd n they are the same."""
    return (n - 1) // 2, n // 2
