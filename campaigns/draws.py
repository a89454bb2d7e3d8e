"""``python -m campaigns.draws``: a million draws, as somebody sees them who wants to predict the next.

Draws of a `MixTailor` of the paper's pool, of sixty rules (where a draw may be rejected) and of unequal probabilities
are tested for their odds, for dependence on earlier draws, and against predictors that know every draw before. A right
generator fails any of all these tests with a probability below 1e-9.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.rules.request import Request

Places = npt.NDArray[np.int64]

ALTOGETHER = 1e-9  # the probability that a right generator fails anywhere
UNEQUAL = (0.7, 0.1, 0.05, 0.05, 0.1)
LAGS = (1, 2, 3, 5, 8, 64)
CONTEXTS = (0, 1, 2)


def chi_square(found: Places, odds: npt.NDArray[np.float64]) -> float:
    """The p-value of the places under the odds."""
    counts, expected = np.bincount(found, minlength=len(odds)), odds * (len(found) / odds.sum())
    # Of cells that expect less than one the statistic has another distribution: the rarest are one cell.
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    rare = int((expected < 1).sum())
    if rare:
        rare = max(rare, int(np.searchsorted(np.cumsum(expected), 1.0)) + 1)
        counts = np.append(counts[rare:], counts[:rare].sum())
        expected = np.append(expected[rare:], expected[:rare].sum())
    return float(stats.chisquare(counts, expected).pvalue)


def pairs(found: Places, odds: npt.NDArray[np.float64], lag: int) -> float:
    """The p-value of a draw and the one `lag` later as independent: disjoint pairs, so that the test is exact."""
    blocks = found[: len(found) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
    return chi_square((blocks[:, 0] * len(odds) + blocks[:, 1]).ravel(), np.outer(odds, odds).ravel())


def runs_of(found: Places, odds: npt.NDArray[np.float64], length: int) -> float:
    """The p-value of `length` draws in a row as independent, each told by the class of the pool it falls into."""
    classes = np.arange(len(odds)) * 4 // len(odds)
    shares = np.bincount(classes, odds)
    groups = classes[found[: len(found) // length * length]].reshape(-1, length)
    joint = shares
    for _ in range(length - 1):
        joint = np.outer(joint, shares).ravel()
    return chi_square(groups @ len(shares) ** np.arange(length - 1, -1, -1), joint)


def predicted(found: Places, odds: npt.NDArray[np.float64], context: int) -> float:
    """The p-value of being right this often: always naming what most often followed the last `context` draws."""
    count = len(odds)
    seen = np.zeros((count**context, count), dtype=np.int64)
    best = np.full(count**context, int(odds.argmax()))
    place, right, size = 0, 0, count**context
    for draw in found.tolist():
        right += best[place] == draw
        seen[place, draw] += 1
        if seen[place, draw] > seen[place, best[place]]:
            best[place] = draw
        place = (place * count + draw) % size
    return float(stats.binomtest(int(right), len(found), float(odds.max() / odds.sum()), alternative="greater").pvalue)


@dataclass
class Trial:
    """What is drawn, and what it should be."""

    name: str
    draw: Callable[[], int]
    odds: npt.NDArray[np.float64]
    p_values: dict[str, float] = field(default_factory=dict)

    def run(self, count: int) -> None:
        found = np.fromiter((self.draw() for _ in range(count)), np.int64, count)
        self.p_values["odds"] = chi_square(found, self.odds)
        for lag in LAGS:
            self.p_values[f"pairs, lag {lag}"] = pairs(found, self.odds, lag)
        self.p_values["five in a row, by class"] = runs_of(found, self.odds, 5)
        for context in CONTEXTS:
            self.p_values[f"predicted from the last {context}"] = predicted(found, self.odds, context)


def trials() -> list[Trial]:
    """The draws that a server makes."""
    mixture, arrival = mt.MixTailor(mt.paper_pool(2)), receive(np.zeros((12, 1)))

    def drawn() -> int:
        return int(mixture.plan(arrival, Request(), 12).facts["place"])  # type: ignore[call-overload, no-any-return]  # a place is an int

    system = mt.SystemEntropy()
    return [
        Trial("MixTailor of the paper's 64", drawn, np.ones(64)),
        Trial("60 rules, with rejection", lambda: system.index(None, 60), np.ones(60)),
        Trial("unequal probabilities", lambda: system.index(UNEQUAL, len(UNEQUAL)), np.array(UNEQUAL)),
    ]


def campaign(count: int, made: list[Trial] | None = None) -> dict[str, Any]:
    """Draw `count` times in each trial and judge."""
    started, made = time.perf_counter(), trials() if made is None else made
    for trial in made:
        trial.run(count)
    level = ALTOGETHER / sum(len(trial.p_values) for trial in made)
    failures = [
        f"{trial.name}: {test}: p = {p:.3g}" for trial in made for test, p in trial.p_values.items() if not p >= level
    ]
    return {
        "draws": count,
        "level": level,
        "seconds": round(time.perf_counter() - started, 1),
        "p_values": {trial.name: {test: float(f"{p:.3g}") for test, p in trial.p_values.items()} for trial in made},
        "failed": len(failures),
        "failures": failures,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; 1 if a test failed."""
    parser = argparse.ArgumentParser("python -m campaigns.draws", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="how many draws, of each kind")
    found = campaign(parser.parse_args(arguments).count)
    print(json.dumps(found, indent=1))
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
