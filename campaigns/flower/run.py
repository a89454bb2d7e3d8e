"""The campaign: hostile rounds by seed, in blocks that can be stopped and resumed."""

from __future__ import annotations

import logging
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from campaigns._ledger import Clock, Ledger, Tally, report
from campaigns.flower.case import played

BLOCK = 250


def campaign(count: int, seed: int, *, state: Path | None = None, memory: bool = False) -> dict[str, Any]:
    """So many cases, each of a hostile round and an honest one after it; with a memory, of four and an honest one."""
    ledger, clock = Ledger.opened(state, "memory" if memory else "flower", seed), Clock()
    size = min(BLOCK, count)
    for block in range(-(-count // size)):
        if ledger.finished(block):
            continue
        ledger.add(block, _block(seed, block * size, min(size, count - block * size), memory))
        ledger.seconds += clock.lap()
        ledger.save(state)
        print(f"{ledger.tried:,} tried, {ledger.failed} failed", file=sys.stderr, flush=True)
    return report(ledger)


def repeat(seed: str, *, memory: bool = False) -> list[str]:
    """What one case breaks, by the seed that a failure names."""
    first, second = map(int, seed.split(":"))
    return _broken(first, second, Tally(), memory)


@contextmanager
def _silenced(name: str) -> Iterator[None]:
    """Without thousands of warnings that are as they should be."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _broken(seed: int, index: int, tally: Tally, memory: bool) -> list[str]:
    with warnings.catch_warnings(), _silenced("flwr"):
        warnings.simplefilter("ignore")  # iterations that stop at their limit
        try:
            case, problems = played(np.random.default_rng([seed, index]), memory=memory)
        except Exception as error:  # nothing that a client sends may stop the run
            place = traceback.extract_tb(error.__traceback__)[-1]
            return [f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"]
    tally.count(rule=type(case.strategy.rule).__name__, hostile=str(case.bad))
    for kinds in case.kinds:
        tally.count(rounds="hostile" if kinds else "with honest clients only")
        for kind in kinds:
            tally.count(kind=kind)
    return problems


def _block(seed: int, start: int, size: int, memory: bool = False) -> Tally:
    tally = Tally()
    for index in range(start, start + size):
        tally.tried += 1
        for problem in _broken(seed, index, tally, memory)[:1]:
            tally.fail(f"{seed}:{index}", problem[:600])
    return tally
