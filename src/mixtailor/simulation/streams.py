"""Named streams of pseudo-random numbers, so that a run can stop anywhere and resume as if it had not."""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["stream", "stream_seed"]


def stream_seed(seed: int, name: str, *position: int) -> int:
    """A seed of 63 bits for one purpose at one place of a run.

    Every use of chance in a simulation has a name and a position (a round, a worker, an epoch). What it draws is a
    function of the run's seed, that name and that position, and of nothing drawn before. No generator state has to be
    saved for a run to resume bit for bit, and one more draw in one place moves nothing in another.

    Parameters
    ----------
    seed : int
        The seed of the run, any integer.
    name : str
        What the numbers are for, say ``"dropout"``.
    *position : int
        Where in the run: a round number, a worker and an epoch, or nothing.

    Examples
    --------
    >>> stream_seed(0, "dropout", 17) == stream_seed(0, "dropout", 17)
    True
    >>> len({stream_seed(0, "dropout", 17), stream_seed(0, "dropout", 18), stream_seed(0, "batches", 17)})
    3

    Notes
    -----
    These numbers repeat by design: they are for data, initial weights and dropout. The server's draw of a rule must
    *not* come from here where an attacker could know the seed.
    """
    return int.from_bytes(_digest(seed, name, position)[:8], "big") >> 1


def stream(seed: int, name: str, *position: int) -> np.random.Generator:
    """A numpy generator for one purpose at one place of a run; see `stream_seed`.

    Examples
    --------
    >>> stream(0, "partition").integers(100) == stream(0, "partition").integers(100)
    np.True_
    """
    return np.random.Generator(np.random.PCG64(int.from_bytes(_digest(seed, name, position), "big")))


def _digest(seed: int, name: str, position: tuple[int, ...]) -> bytes:
    # repr keeps apart what a plain join would run together: ("a", 1, 2) and ("a", 12).
    return hashlib.sha256(repr((int(seed), name, tuple(map(int, position)))).encode()).digest()
