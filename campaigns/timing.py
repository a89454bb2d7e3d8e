"""``python -m campaigns.timing``: how much the time of an aggregation tells about the rule that was drawn.

A mixture is called again and again, as a server would. Somebody who sees nothing but how long each call took guesses
the class of the rule (Krum, comed, ...) from the calls most alike in time, each call left out of its own guess. Told
are the share of right guesses beside that of always naming the most frequent class, and the mutual information in bits,
less what shuffled times give; as seen on the machine itself, and through a network whose delays vary by a millisecond.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import mixtailor as mt
from mixtailor.rules import Rule

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

NEIGHBOURS = 15
BINS = 16
JITTER = 1e-3  # seconds, the standard deviation of a good network's delays
POOLS: dict[str, Callable[[int], list[Rule]]] = {"paper": mt.paper_pool, "default": mt.default_pool}


def guessed(times: Floats, labels: Labels) -> float:
    """The share of calls whose class most of those nearest in time have, too."""
    order = np.argsort(times, kind="stable")
    times, labels = times[order], labels[order]
    right = 0
    for place in range(len(times)):
        low, high = max(0, place - NEIGHBOURS), min(len(times), place + NEIGHBOURS + 1)
        window = np.r_[low:place, place + 1 : high]
        nearest = window[np.argsort(np.abs(times[window] - times[place]), kind="stable")[:NEIGHBOURS]]
        right += np.bincount(labels[nearest]).argmax() == labels[place]
    return float(right / len(times))


def information(times: Floats, labels: Labels, rng: np.random.Generator) -> float:
    """Bits that the time, in sixteen equally full bins, tells about the class, above what chance alone shows."""
    bins = np.argsort(np.argsort(times, kind="stable")) * BINS // len(times)

    def bits(classes: Labels) -> float:
        joint = np.zeros((BINS, classes.max() + 1))
        np.add.at(joint, (bins, classes), 1.0 / len(times))
        independent = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
        seen = joint > 0
        return float((joint[seen] * np.log2(joint[seen] / independent[seen])).sum())

    shuffled = np.mean([bits(rng.permutation(labels)) for _ in range(50)])
    return max(0.0, bits(labels) - float(shuffled))


def observed(rule: mt.MixTailor, rows: Any, count: int) -> tuple[Floats, list[str]]:
    """How long each of some calls took, and the class of the rule that was drawn."""
    times, classes = np.empty(count), []
    for call in range(count):
        started = time.perf_counter()
        result = rule.aggregate(rows)
        times[call] = time.perf_counter() - started
        drawn = result.rule
        while hasattr(drawn, "rule"):  # behind a pre-aggregation
            drawn = drawn.rule
        classes.append(type(drawn).__name__)
    return times, classes


def told(times: Floats, classes: list[str], seed: int = 0) -> dict[str, Any]:
    """What these observations give away."""
    names = sorted(set(classes))
    labels = np.array([names.index(name) for name in classes])
    entropy = -sum(share * np.log2(share) for share in np.bincount(labels) / len(labels))
    found: dict[str, Any] = {"naming the most frequent": round(float(np.bincount(labels).max() / len(labels)), 3)}
    for where, jitter in (("on the machine", 0.0), ("through a network", JITTER)):
        rng = np.random.default_rng(seed)
        seen = times + np.abs(rng.normal(scale=jitter, size=len(times))) if jitter else times
        bits = round(information(seen, labels, rng), 3)
        found[where] = {"guessed": round(guessed(seen, labels), 3), "bits": bits, "of bits": round(float(entropy), 3)}
    medians = {name: round(1e3 * float(np.median(times[labels == k])), 3) for k, name in enumerate(names)}
    return {**found, "milliseconds": medians}


def campaign(pool: str, n: int, f: int, d: int, count: int) -> dict[str, Any]:
    """One pool at one size, as it is and with `release_after`."""
    rules = POOLS[pool](f)
    rows = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
    for rule in rules:  # kernels load before anything is measured
        rule(rows)
    plain = observed(mt.MixTailor(rules), rows, count)
    release = 2.0 * float(plain[0].max())
    with warnings.catch_warnings(record=True) as late:
        warnings.simplefilter("always")
        held = observed(mt.MixTailor(rules, release_after=release), rows, min(count, max(100, int(60.0 / release))))
    return {
        "pool": pool,
        "n": n,
        "d": d,
        "calls": count,
        "as it is": told(*plain),
        "release_after": round(release, 4),
        "calls held": len(held[0]),
        "late": len(late),
        "held": told(*held),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser("python -m campaigns.timing", description=__doc__)
    parser.add_argument("--pool", choices=sorted(POOLS), default="paper")
    parser.add_argument("--n", type=int, default=12)
    parser.add_argument("--f", type=int, default=2)
    parser.add_argument("--d", type=int, default=21_840)
    parser.add_argument("--count", type=int, default=1000, help="how many calls")
    given = parser.parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        print(json.dumps(campaign(given.pool, given.n, given.f, given.d, given.count), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
