"""Replicated shares of integers: three parties hold two of three random summands each.

``x = x0 + x1 + x2`` modulo 2^64, with x0 and x1 uniformly random, so that any two summands say nothing about x. Party i
holds ``x_i`` and ``x_(i+1)``. Every sum with public integer weights is formed on the summands, without a message. This
is the representation of ABY3 (Mohassel and Rindal, CCS 2018); multiplications and comparisons are left to the engine.
"""

import hashlib
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mixtailor._checks import refuse

__all__ = ["PARTIES", "Held", "held", "join", "split"]

PARTIES = 3
Ring = np.ndarray[Any, np.dtype[np.uint64]]


class Held(NamedTuple):
    """What one party holds of something: two of the three summands."""

    first: Ring
    second: Ring

    def combined(self, weights: Any) -> "Held":
        """Sums with public integer weights, (k, n) or (n,), over the first axis. Local: nothing is sent."""
        ring = np.asarray(weights, np.int64).astype(np.uint64)
        return Held(_product(ring, self.first), _product(ring, self.second))

    def digests(self) -> tuple[str, str]:
        """Digests of both summands. Each party compares them with those of the other party that holds the summand."""
        first, second = (hashlib.sha256(part.tobytes()).hexdigest() for part in self)
        return first, second


def _product(weights: Ring, rows: Ring) -> Ring:
    # Modulo 2^64. numpy multiplies integer matrices by a plain loop: rows one after the other keep it in the cache.
    result = np.zeros((*weights.shape[:-1], *rows.shape[1:]), np.uint64)
    for place, row in enumerate(rows):
        for target, weight in zip(result.reshape(-1, *rows.shape[1:]), weights[..., place].ravel(), strict=True):
            if weight:
                target += weight * row
    return result


def split(values: Any) -> tuple[bytes, bytes, bytes]:
    """Three payloads, one for each party, that together are these integers.

    The randomness is the operating system's. Send each payload to its party alone, over a channel that is encrypted and
    authenticates the client: two payloads are enough to read the update.

    Examples
    --------
    >>> payloads = split(np.array([5, -7, 0]))
    >>> [len(payload) for payload in payloads]
    [48, 48, 48]
    """
    secret = np.asarray(values, np.int64).astype(np.uint64).ravel()
    random = np.frombuffer(os.urandom(16 * secret.size), np.uint64).reshape(2, secret.size)
    summands = [*random, secret - random[0] - random[1]]
    first, second, third = (summands[i].tobytes() + summands[(i + 1) % PARTIES].tobytes() for i in range(PARTIES))
    return first, second, third


def held(payload: bytes, d: int) -> Held:
    """Read a payload. Its size is the only thing that it can get wrong: every bit pattern is a share of something."""
    if len(payload) != 16 * d:
        refuse(f"A share of {d} coordinates has {16 * d} bytes, and this one has {len(payload)}.")
    both = np.frombuffer(payload, "<u8").astype(np.uint64).reshape(2, d)
    return Held(both[0], both[1])


def join(summands: Sequence[Any]) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """The integers, from one summand of each party.

    Examples
    --------
    >>> parts = [np.frombuffer(payload, np.uint64)[:3] for payload in split(np.array([5, -7, 0]))]
    >>> join(parts)
    array([ 5, -7,  0])
    """
    total = np.zeros(np.shape(summands[0]), np.uint64)
    for summand in summands:
        total = total + np.asarray(summand, np.uint64)
    return total.astype(np.int64)
