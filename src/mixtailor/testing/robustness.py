"""How far can f rows move a rule? Every subset that could be honest is looked at, and a search climbs to the worst."""

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixtailor._types import Floats
from mixtailor.rules.base import Rule
from mixtailor.rules.request import KeySource

__all__ = ["Worst", "climb", "excess"]


@dataclass(frozen=True)
class Worst:
    """The worst input that a search found.

    Attributes
    ----------
    ratio : float
        ``|result - mean|^2 / variance`` over the worst subset that could be honest: a lower bound on any kappa.
    rows : array
        The input.
    evaluations : int
        How many inputs were tried.
    """

    ratio: float
    rows: Floats
    evaluations: int


def excess(result: Any, rows: Any, f: int) -> float:
    r"""The largest :math:`\lVert U - \bar x_S \rVert^2 / \frac{1}{|S|} \sum_{i \in S} \lVert x_i - \bar x_S \rVert^2`
    over all subsets S of n - f finite updates: any of them could be the honest ones.

    Where a subset has no variance, a difference beyond rounding counts as infinite.
    """
    finite = [row for row in range(len(rows)) if np.isfinite(rows[row]).all()]
    known = np.asarray(rows, np.float64)
    worst = 0.0
    for subset in itertools.combinations(finite, len(rows) - f):
        honest = known[list(subset)]
        # In units of the largest entry, so that squares of 1e38 and of 1e-38 are numbers.
        unit = float(np.abs(honest).max()) or 1.0
        mean = (honest / unit).mean(axis=0)
        distance = float(((np.asarray(result, np.float64) / unit - mean) ** 2).sum())
        variance = float(((honest / unit - mean) ** 2).sum(axis=1).mean())
        rounding = 1e-12 if result.dtype == np.float64 else 1e-11
        if distance <= rounding * max(1.0, float((mean**2).sum())):
            continue
        worst = max(worst, distance / variance if variance > 0 else np.inf)
    return worst


def climb(
    rule: Rule, n: int, f: int, *, d: int = 2, steps: int = 400, seed: int = 0, entropy: KeySource | None = None
) -> Worst:
    """Search for the input on which a rule errs most: changes updates, keeps what makes it worse.

    Starts with clusters, the shape of the known worst cases (some honest updates away from the others, the Byzantine
    updates among them), and moves, copies and rescales updates.
    """
    rng = np.random.default_rng(seed)
    best, evaluations = Worst(0.0, np.zeros((n, d)), 0), 0

    def ratio_of(rows: Floats) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # an early stop is a fair result here
            result = rule(rows, reference=rows[0], honest=range(n - f), entropy=entropy)
        return excess(result, rows, f)

    for start in _starts(n, f, d, rng):
        rows, ratio = start, ratio_of(start)
        size = 1.0
        for _ in range(steps // (2 * f + 6)):
            candidate = _changed(rows, size, rng)
            found = ratio_of(candidate)
            evaluations += 1
            size = min(4.0, size * 1.3) if found > ratio else max(1e-3, size * 0.85)
            if found > ratio:
                rows, ratio = candidate, found
        if ratio > best.ratio:
            best = Worst(ratio, rows, evaluations)
    return Worst(best.ratio, best.rows, evaluations)


def _starts(n: int, f: int, d: int, rng: np.random.Generator) -> list[Floats]:
    """Honest rows in two clusters with the Byzantine ones in the smaller, further out, or far away; and noise."""
    direction = np.zeros(d)
    direction[0] = 1.0
    starts: list[Floats] = []
    for apart in range(2 * f + 2):
        rows = 1e-3 * rng.normal(size=(n, d))
        rows[n - f :] += direction
        rows[max(0, n - f - apart) : n - f] += direction
        starts.append(rows)
    for away in (3.0, 1e6):
        rows = rng.normal(size=(n, d))
        rows[n - f :] = away * direction
        starts.append(rows)
    starts.append(rng.normal(size=(n, d)))
    tailored = rng.normal(size=(n, d)) + direction
    tailored[n - f :] = -0.5 * tailored[: n - f].mean(axis=0)
    starts.append(tailored)
    return starts


def _changed(rows: Floats, size: float, rng: np.random.Generator) -> Floats:
    candidate = rows.copy()
    row = rng.integers(len(rows))
    spread = max(float(np.median(np.abs(rows - np.median(rows, axis=0)))), 1e-6)
    match rng.integers(4):
        case 0:
            candidate[row] = rows[rng.integers(len(rows))]
        case 1:
            candidate[row] += size * spread * rng.normal(size=rows.shape[1])
        case 2:
            middle = np.median(rows, axis=0)
            candidate[row] = middle + (rows[row] - middle) * rng.uniform(0.2, 2.0)
        case _:
            candidate[row, rng.integers(rows.shape[1])] += size * spread * rng.normal()
    return candidate
