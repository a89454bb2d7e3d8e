"""Defences of the literature that remember, for many trainings at once: what `benchmarks.memory` compares with.

Each is called with the updates of all trainings, (A, S, n, d), and the round, and returns the results, (A, S, d).
`tests/benchmarks/test_memory.py` compares them with the plain versions in `tests/memory/naive_baselines.py`.
"""

from typing import Any

import numpy as np

from benchmarks.memory.attacks import Array

__all__ = ["ByzantineSGD", "CenteredClipping", "Safeguard"]


def _between(rows: Array) -> Array:
    """Distances, (A, S, n, n)."""
    rows = rows.astype(np.float64)
    products = np.matmul(rows, rows.swapaxes(-1, -2))
    squares = np.einsum("...ii->...i", products)
    return np.asarray(np.sqrt(np.maximum(squares[..., None] + squares[..., None, :] - 2.0 * products, 0.0)))


class Safeguard:
    """SafeguardSGD with two windows (Allen-Zhu et al., ICLR 2021), with the factor of the paper's experiments.

    Who is farther than `factor` times the distance that a majority has from the centre, in the sums of a window, is
    excluded for good. With `reset`, everybody is trusted again when a long window starts.
    """

    def __init__(self, long: int = 100, short: int = 20, factor: float = 1.5, *, reset: bool = True):
        self.windows, self.factor, self.reset = (long, short), factor, reset
        self.sums: list[Any] = [np.float32(0.0)] * 2
        self.good: Any = None

    def __call__(self, rows: Array, round: int) -> Array:
        n = rows.shape[2]
        if self.good is None or (self.reset and round % self.windows[0] == 0):
            self.good = np.ones(rows.shape[:3], bool)
        share = self.good / self.good.sum(-1, keepdims=True)
        result = np.einsum("asn,asnd->asd", share.astype(np.float32), np.where(self.good[..., None], rows, 0.0))
        kept, trusted = self.good.copy(), self.good.sum(-1)
        for place, window in enumerate(self.windows):
            before = np.float32(0.0) if round % window == 0 else self.sums[place]
            self.sums[place] = before + rows / trusted[..., None, None].astype(np.float32)
            between = _between(self.sums[place])
            among = np.where(self.good[..., None, :], between, np.inf)
            middle = np.minimum(n // 2, trusted - 1)[..., None, None]
            scores = np.take_along_axis(np.sort(among, -1), np.broadcast_to(middle, (*rows.shape[:3], 1)), -1)[..., 0]
            scores = np.where(self.good, scores, np.inf)
            centre = scores.argmin(-1)[..., None]
            away = np.take_along_axis(between, centre[..., None], 2)[:, :, 0]
            kept &= away <= self.factor * np.take_along_axis(scores, centre, -1)
        self.good = kept
        return np.asarray(result)


class CenteredClipping:
    """Centered clipping around the last result (Karimireddy et al., ICML 2021).

    The radius is the median distance to the centre in each round, so that it needs no tuning; three iterations.
    """

    def __init__(self, iterations: int = 3):
        self.iterations = iterations
        self.centre: Any = None

    def __call__(self, rows: Array, _round: int) -> Array:
        centre = np.zeros_like(rows[:, :, 0]) if self.centre is None else self.centre
        for _ in range(self.iterations):
            away = rows - centre[:, :, None]
            lengths = np.sqrt((away.astype(np.float64) ** 2).sum(-1, keepdims=True))
            factors = np.minimum(1.0, np.median(lengths, 2, keepdims=True) / np.maximum(lengths, 1e-300))
            centre = centre + (away * factors.astype(np.float32)).mean(2)
        self.centre = centre
        return np.asarray(centre)


class ByzantineSGD:
    """ByzantineSGD (Alistarh et al., NeurIPS 2018) without its test on the way travelled, which asks for the model.

    Its V, a bound on the noise, is the median distance between two updates in the first round.
    """

    def __init__(self, level: float = 0.01):
        self.level, self.sums = level, np.float32(0.0)
        self.good: Any = None
        self.noise: Any = None

    def __call__(self, rows: Array, round: int) -> Array:
        n = rows.shape[2]
        if self.good is None:
            self.good = np.ones(rows.shape[:3], bool)
            self.noise = np.median(_between(rows), (-1, -2))[..., None]
        self.sums = self.sums + rows
        width = 4.0 * self.noise * np.sqrt((round + 1) * np.log(16.0 * n * (round + 1) / self.level))
        self.good &= _near_majority(self.sums, width) & _near_majority(rows, 4.0 * self.noise)
        return np.asarray(np.einsum("asn,asnd->asd", self.good.astype(np.float32), rows) / np.float32(n))


def _near_majority(rows: Array, bound: Array) -> Array:
    between = _between(rows)
    central = (between <= bound[..., None] / 2.0).sum(-1) > rows.shape[2] / 2.0
    away = np.take_along_axis(between, central.argmax(-1)[..., None, None], 2)[:, :, 0]
    return np.asarray(np.where(central.any(-1, keepdims=True), away <= bound, True))
