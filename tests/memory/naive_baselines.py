"""Two defences of the literature that remember, written plainly in numpy: what a memory of ours is compared with.

Each is a function from a state and the updates of a round to the next state and the aggregate. Both keep n sums of d
numbers, expect the same workers in the same order in every round, and never forgive: who was excluded stays out, unless
`reset` says otherwise.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ByzantineSGDState", "SafeguardState", "byzantine_sgd", "safeguard"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SafeguardState:
    """Who is still trusted, and the sums of the long and of the short window."""

    good: npt.NDArray[np.bool_]
    long: Floats
    short: Floats
    round: int = 0

    @classmethod
    def begin(cls, n: int, d: int) -> "SafeguardState":
        return cls(np.ones(n, bool), np.zeros((n, d)), np.zeros((n, d)))


def safeguard(
    state: SafeguardState,
    updates: Any,
    *,
    long: int = 100,
    short: int = 20,
    factor: float = 1.5,
    floor: float = 0.0,
    reset: bool = False,
) -> tuple[SafeguardState, Floats]:
    """SafeguardSGD with two windows (Allen-Zhu, Ebrahimianghazani, Li, Alistarh, "Byzantine-Resilient Non-Convex
    Stochastic Gradient Descent", ICLR 2021).

    Each worker's updates, divided by the number of trusted workers, are summed over the present window of `long` and of
    `short` rounds. In each window the centre is the trusted worker whose neighbour number n/2 is nearest. A worker
    farther from it than `factor` times that distance, and than `floor`, is excluded from the next round on. The proofs
    use a fixed threshold that depends on the noise; this is the rule by which the paper's experiments choose one.
    The aggregate is the mean of the trusted updates. The Gaussian noise that the proofs add to escape saddle points is
    left out. With `reset`, everybody is trusted again when a long window starts.
    """
    rows = np.asarray(updates, np.float64)
    good = state.good.copy()
    if reset and state.round % long == 0:
        good[:] = True
    share = rows / good.sum()
    sums = {
        name: share + (0.0 if state.round % window == 0 else getattr(state, name))
        for name, window in (("long", long), ("short", short))
    }
    aggregate = rows[good].mean(axis=0)
    kept = good.copy()
    for total in sums.values():
        away, reach = _from_centre(total, good)
        kept &= away <= max(factor * reach, floor)
    return SafeguardState(kept, sums["long"], sums["short"], state.round + 1), aggregate


def _from_centre(total: Floats, good: npt.NDArray[np.bool_]) -> tuple[Floats, float]:
    """Distances to the trusted worker whose neighbour number n/2 is nearest, and that neighbour's distance."""
    trusted = np.nonzero(good)[0]
    between = np.linalg.norm(total[:, None] - total[None], axis=2)
    # Itself is neighbour 0: so many are a majority of all workers, where enough of them are trusted.
    middle = min(len(good) // 2, len(trusted) - 1)
    scores = np.sort(between[np.ix_(trusted, trusted)], axis=1)[:, middle]
    best = int(scores.argmin())
    return between[trusted[best]], float(scores[best])


@dataclass(frozen=True)
class ByzantineSGDState:
    """Who is still trusted, the sums of updates and of their products with the way travelled, and the first model."""

    good: npt.NDArray[np.bool_]
    products: Floats
    sums: Floats
    start: Floats
    round: int = 0

    @classmethod
    def begin(cls, n: int, model: Any) -> "ByzantineSGDState":
        first = np.asarray(model, np.float64)
        return cls(np.ones(n, bool), np.zeros(n), np.zeros((n, len(first))), first)


def byzantine_sgd(
    state: ByzantineSGDState, updates: Any, model: Any, *, noise: float, diameter: float, level: float = 0.01
) -> tuple[ByzantineSGDState, Floats]:
    """ByzantineSGD (Alistarh, Allen-Zhu, Li, "Byzantine Stochastic Gradient Descent", NeurIPS 2018).

    `noise` is V, a bound on the distance of an honest update to the gradient; `diameter` is D, how far training goes.
    Worker i stays trusted as long as, with T rounds done and C = log(16 n T / level),

        |A_i - median A| <= 4 D V sqrt(T C),  ||B_i - B_med|| <= 4 V sqrt(T C),  ||g_i - g_med|| <= 4 V,

    where A_i sums <g_i, x - x_1>, B_i sums g_i, and a med is a row with more than half of all rows within half of the
    bound. The paper's T is the number of all rounds; here it is the number of rounds so far, which makes early rounds
    stricter. The aggregate is the sum of the trusted updates over n, as in the paper: excluded workers count as zero.
    Where no row has a majority nearby, that test excludes nobody.
    """
    rows, n = np.asarray(updates, np.float64), len(state.good)
    done = state.round + 1
    products = state.products + rows @ (np.asarray(model, np.float64) - state.start)
    sums = state.sums + rows
    width = 4.0 * noise * np.sqrt(done * np.log(16.0 * n * done / level))
    good = state.good & (np.abs(products - np.median(products)) <= diameter * width)
    good &= _near_majority(sums, width) & _near_majority(rows, 4.0 * noise)
    return replace(state, good=good, products=products, sums=sums, round=done), rows[good].sum(axis=0) / n


def _near_majority(rows: Floats, bound: float) -> npt.NDArray[np.bool_]:
    between = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    central = np.nonzero((between <= bound / 2.0).sum(axis=1) > len(rows) / 2.0)[0]
    return between[central[0]] <= bound if len(central) else np.ones(len(rows), bool)
