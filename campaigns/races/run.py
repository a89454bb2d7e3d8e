"""A worker changes its file: once, at a random moment, all the time from a thread, or before one chosen read."""

from __future__ import annotations

import mmap
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import mixtailor as mt
from campaigns import _cases
from campaigns._ledger import Tally
from campaigns.races import moments
from mixtailor.intake.files import receive_files

RULES = [
    mt.Krum(2), mt.MultiKrum(2), mt.Medoid(), mt.GeometricMedian(), mt.TrimmedMean(2), mt.Comed(), mt.MDA(2), mt.DnC(2),
    mt.NNM(2) >> mt.Comed(), mt.NNM(2) >> mt.Krum(2), mt.Bulyan(1), mt.Aksel(), mt.CenteredClipping(tau=100.0),
]  # fmt: skip
FORMS = (".npy", ".npz", ".packed.npz", ".safetensors", ".pt")
VALUES = (np.nan, np.inf, 1e9, -1e30, 0.5)
N, HONEST_REACH = 9, 3.0


def case(folder: Path, index: int, rng: np.random.Generator, tally: Tally) -> str | None:
    """One aggregation; the result is finite, near the honest rows, and nobody but the one who changed is named."""
    rule, form = RULES[index % len(RULES)], FORMS[index % len(FORMS)]  # 13 and 5: every pair in 65 cases
    how = ("once", "always", "before a read")[int(rng.integers(3))]
    tally.count(rule=type(rule).__name__, how=how)
    if how == "before a read":
        return moments.case(folder, rule, rng, tally)
    d, mallory, value = int(rng.integers(1000, 40_000)), int(rng.integers(N)), VALUES[rng.integers(len(VALUES))]
    rows = rng.standard_normal((N, d)).astype(np.float32)
    rows[mallory] = np.delete(rows, mallory, axis=0).mean(axis=0)
    paths = [folder / f"{k}{form}" for k in range(N)]
    for path, row in zip(paths, rows, strict=True):
        moments.written(path, row)
    tally.count(form=form)
    with paths[mallory].open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        for place in range(0, len(pages), 512):
            pages[place] = pages[place]  # dirty from now on: the file's times do not tell of what is written later
        start = int(rng.integers(len(pages) // 4, len(pages) // 2)) // 4 * 4
        result = _raced(rule, paths, pages, start, value, how, float(rng.uniform(0.0, 2.5)))
    named = {(one.row, one.reason) for one in result.quarantined}
    tally.count(named="the one who changed" if named else "nobody")
    if any(row != mallory for row, _ in named):
        return f"{rule!r}, {form}: {named} where {mallory} changed"
    update = result.update
    flat = np.concatenate([update["a"], update["b"]]) if isinstance(update, dict) else update
    honest = np.delete(rows, mallory, axis=0)
    if not np.isfinite(flat).all():
        return f"{rule!r}, {form}, {value}: not finite"
    reach, far = np.linalg.norm(honest - honest.mean(axis=0), axis=1).max(), np.linalg.norm(flat - honest.mean(axis=0))
    return None if far <= HONEST_REACH * reach else f"{rule!r}, {form}, {value}: {far} away where honest reach {reach}"


def _raced(
    rule: Any, paths: list[Path], pages: mmap.mmap, start: int, value: float, how: str, moment: float
) -> mt.Aggregation:
    stop_at = min(start + 4000, len(pages))
    old, new = pages[start:stop_at], np.full(1000, value, np.float32).tobytes()[: stop_at - start]
    arrival = receive_files(paths)
    stop, read = threading.Event(), [0.0]

    def hook(share: float) -> None:
        if read[0] <= moment < read[0] + share:
            pages[start:stop_at] = new
        read[0] += share

    def flip() -> None:
        while not stop.is_set():
            pages[start:stop_at] = new
            os.sched_yield()
            pages[start:stop_at] = old

    thread = threading.Thread(target=flip)
    if how == "always":
        thread.start()
    try:
        return rule.aggregate(replace(arrival, watch=hook) if how == "once" else arrival)
    finally:
        stop.set()
        if how == "always":
            thread.join()


def campaign(count: int, seed: int, *, state: Path | None = None) -> dict[str, Any]:
    """So many cases."""
    return _cases.campaign("races", case, count, seed, state)


def repeat(seed: str) -> list[str]:
    """What one case breaks."""
    return _cases.repeat(case, seed)
