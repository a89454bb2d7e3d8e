"""With more rows, distances grow no faster than n in units of the mean, and columnwise rules than log^2 n."""

from __future__ import annotations

import math
import time

import mixtailor as mt
from benchmarks import _own
from benchmarks._data import gradients
from benchmarks._findings import Finding
from benchmarks._measured import Measured
from benchmarks._plans import Size

__all__ = ["SEARCHES", "TASKS", "WIDEST", "beyond_the_budget", "findings"]

CLAIM = "scaling_with_n"
COLUMNWISE = ("Comed", "TrimmedMean", "Meamed")
SEARCHES = ("MDA", "SMEA")
TASKS = (*_own.MAIN, *SEARCHES, *(f"{name}, n alone" for name in SEARCHES), "NNM >> Comed", "NNM >> Krum")
WIDEST = (*COLUMNWISE, "Krum", "GeometricMedian", "Bulyan")


def findings(few: Measured, wide: Measured, widest: Measured) -> list[Finding]:
    """The growth of each rule's multiple from one size to the next, and the multiples themselves."""
    found = []
    for measured in (wide, widest):
        for key, timing in measured.timings.items():
            data, _, task = key.partition("/")
            if data in ("gradients", "far"):
                value, low, high = measured.multiple(timing)
                what = task if data == "gradients" else f"{task}, one row at 1e30"
                facts = {"milliseconds": 1e3 * timing.median}
                found.append(Finding(CLAIM, what, str(measured.size), value, "x mean", low=low, high=high, facts=facts))
    for before, after in ((few, wide), (wide, widest)):
        n, m = before.size.n, after.size.n
        for task in WIDEST:
            growth = after.multiple(after.of("gradients", task))[0] / before.multiple(before.of("gradients", task))[0]
            columnwise = task in COLUMNWISE
            # Below fifty rows columns are sorted in registers, above in tiles: the claim is about the latter.
            limit = (math.log(m) / math.log(n)) ** 2 if columnwise else m / n
            held = None if columnwise and before is few else limit
            found.append(
                Finding(CLAIM, f"{task}, {n} to {m} rows", f"{before.size} to {after.size}", growth, "x growth", held)
            )
    return found


def beyond_the_budget(size: Size) -> list[Finding]:
    """What MDA and SMEA do where f is a fifth of many rows: the search ends, or its budget does."""
    found = []
    rows = gradients(size.n, min(size.d, 1 << 14), size.f)
    for rule in (mt.MDA(size.f), mt.SMEA(size.f)):
        start = time.perf_counter()
        result = rule.aggregate(rows)
        outcome = "the budget was spent, a neighbourhood's mean" if "fallback" in result.facts else "the search ended"
        seconds = time.perf_counter() - start
        found.append(Finding(CLAIM, repr(rule), f"({size.n}, {rows.shape[1]:,})", seconds, "seconds", note=outcome))
    return found
