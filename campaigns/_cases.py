"""Campaigns of independent cases: each follows from a seed and its number, and has a folder of its own.

The number chooses the kind of a case, so that all kinds have the same share; the seed chooses the rest.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from campaigns._ledger import Clock, Ledger, Tally, report

Case = Callable[[Path, int, np.random.Generator, Tally], "str | None"]
BLOCK = 50


def one(case: Case, seed: int, index: int, tally: Tally) -> None:
    """One case, counted; what it returns or raises is a broken promise."""
    folder = Path(tempfile.mkdtemp(prefix="case-"))
    try:
        problem = case(folder, index, np.random.default_rng([seed, index]), tally)
    except Exception:
        problem = traceback.format_exc(limit=-3)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tally.tried += 1
    if problem is not None:
        tally.fail(f"{seed}:{index}", problem[:600])


def campaign(name: str, case: Case, count: int, seed: int, state: Path | None) -> dict[str, Any]:
    """So many cases; one that was stopped goes on where it was."""
    ledger, clock, size = Ledger.opened(state, name, seed), Clock(), min(BLOCK, count)
    for block in range(-(-count // size)):
        if ledger.finished(block):
            continue
        tally = Tally()
        for index in range(block * size, (block + 1) * size):
            one(case, seed, index, tally)
        ledger.add(block, tally)
        ledger.seconds += clock.lap()
        ledger.save(state)
        print(f"{ledger.tried:,} tried, {ledger.failed} failed", file=sys.stderr, flush=True)
    return report(ledger)


def repeat(case: Case, seed: str) -> list[str]:
    """What one case breaks, by the seed that a failure names."""
    first, second = seed.split(":")
    tally = Tally()
    one(case, int(first), int(second), tally)
    return [failure["what"] for failure in tally.failures]
