"""Trying attacks is cheap: a few means for a drawn rule, and the whole pool of 64 in tens of milliseconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np

import mixtailor as mt
from benchmarks._data import gradients
from benchmarks._findings import Finding
from benchmarks._harness import Timing, interleave, local, ratio
from benchmarks._plans import Plan, Size, full, quick
from mixtailor.attacks import Adaptive

__all__ = ["findings"]

CLAIM = "adaptive_attack"
DRAWN, WHOLE = 12.0, 300.0  # means per epsilon
SMALL = 80.0  # milliseconds for all epsilons
EPSILONS = (0.1, 0.5, 1.0, 10.0)


def findings(plan: Plan, say: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """`Adaptive` with four epsilons against the paper's pool: a drawn rule on average, and all rules."""
    found = []
    for size in (plan.table, plan.small):
        say(f"{size}: the adaptive attack")
        found += _at(size, plan, small=size == plan.small)
    return found


def _at(size: Size, plan: Plan, *, small: bool) -> list[Finding]:
    rows = gradients(size.n, size.d, 0)
    honest = rows[: size.n - size.f]
    pool = mt.paper_pool(size.f)
    members = dict.fromkeys(rule for rule in pool if rule.min_rows() <= size.n)
    whole = Adaptive(mt.MixTailor(pool), EPSILONS, against="pool")
    contenders = [local("mean", lambda: mt.Mean()(rows)), local("pool", lambda: whole(honest, size.f))]
    contenders += [local(repr(rule), partial(Adaptive(rule, EPSILONS), honest, size.f)) for rule in members]
    timings = interleave(contenders, rounds=plan.rounds, spend=plan.spend)
    counts = {repr(rule): sum(other == rule for other in pool) for rule in members}
    each = {name: ratio(timings[name], timings["mean"])[0] / len(EPSILONS) for name in counts}
    drawn = float(np.average(list(each.values()), weights=list(counts.values())))
    slowest = max(each, key=lambda name: each[name])
    pooled: Timing = timings["pool"]
    value, low, high = (part / len(EPSILONS) for part in ratio(pooled, timings["mean"]))
    facts = {"milliseconds": 1e3 * pooled.median, "mean_milliseconds": 1e3 * timings["mean"].median}
    found = [
        Finding(
            CLAIM,
            "a drawn rule, per epsilon",
            str(size),
            drawn,
            "x mean",
            None if small else DRAWN,
            note=f"slowest {slowest}: {each[slowest]:.1f}",
        ),
        Finding(
            CLAIM,
            "the pool of 64, per epsilon",
            str(size),
            value,
            "x mean",
            None if small else WHOLE,
            low=low,
            high=high,
            facts=facts,
        ),
    ]
    if small:
        low, high = (1e3 * end for end in pooled.quartiles)
        what = f"the pool of 64, {len(EPSILONS)} epsilons"
        found.append(
            Finding(CLAIM, what, str(size), 1e3 * pooled.median, "milliseconds", SMALL, low=low, high=high, facts=facts)
        )
    return found


if __name__ == "__main__":
    for finding in findings(quick() if "--quick" in sys.argv else full(), lambda text: print(text, file=sys.stderr)):
        limit = "" if finding.limit is None else f" (at most {finding.limit:g})"
        print(f"{finding.size:18} {finding.what:34} {finding.value:8.1f} {finding.unit}{limit}  {finding.note}")
