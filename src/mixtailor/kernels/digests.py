"""Keyed digests of blocks of bytes: whether what is read again is what was read before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import kernel

__all__ = ["block_digests"]


@kernel
def block_digests(words: NDArray[np.uint32], keys: NDArray[np.uint64]) -> Any:
    """Two numbers for each block of as many words as there are keys: sums of words times secret keys, modulo 2^64.

    For keys that nobody knows, two different blocks have the same two sums with a probability of at most 2^-64
    (multilinear hashing: Lemire and Kaser, "Strongly Universal String Hashing is Fast", 2014). It is as fast as
    memory, and cryptographic hashes are several times slower than the pass over the files that they would guard.

    Parameters
    ----------
    words : array of uint32
        The blocks, one after the other; the last may be shorter.
    keys : (2, words of a block) array of uint64
    """
    width = keys.shape[1]
    count = (words.size + width - 1) // width
    found = np.empty((count, 2), np.uint64)
    for block in range(count):
        first = second = np.uint64(0)
        start = block * width
        for at in range(min(width, words.size - start)):
            word = np.uint64(words[start + at])
            first += keys[0, at] * word
            second += keys[1, at] * word
        found[block, 0] = first
        found[block, 1] = second
    return found
