"""The campaign: blocks of cases, in one process or several."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from campaigns._ledger import Clock, Ledger, Tally, report
from campaigns.rows.case import Case

BLOCK = 500
PATIENCE = 30.0  # seconds of computing that one case may take: nothing here should take a tenth of one
WAIT = 1800  # and in all, however busy the machine is


def campaign(count: int, seed: int, *, state: Path | None = None, processes: int = 1) -> dict[str, Any]:
    """Try cases 0 to `count` of a seed; what a state file says was tried is not tried again."""
    ledger, clock = Ledger.opened(state, "rows", seed), Clock()
    size = min(BLOCK, max(1, count))
    blocks = [block for block in range(-(-count // size)) if not ledger.finished(block)]
    work = partial(_block, seed, size)
    for done, (block, tally) in enumerate(_worked(work, blocks, processes), 1):
        ledger.add(block, tally)
        ledger.seconds += clock.lap()
        ledger.save(state)
        if sys.stderr.isatty() or done % 20 == 0:
            print(f"{ledger.tried:,} tried, {ledger.failed} failed", file=sys.stderr, flush=True)
    return report(ledger, aggregations=sum(ledger.counts.get("aggregations", {}).values()))


def repeat(seed: str) -> list[str]:
    """The promises that one case breaks, by the seed that a failure names."""
    first, second = seed.split(":")
    case = Case.of(int(first), int(second))
    return [f"{case}: {what}" for what in case.broken()]


def _worked(work: Any, blocks: Iterable[int], processes: int) -> Iterator[tuple[int, Tally]]:
    if processes == 1:
        yield from map(work, blocks)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(work, blocks)


def _block(seed: int, size: int, block: int) -> tuple[int, Tally]:
    tally = Tally()
    signal.signal(signal.SIGALRM, _too_long)
    signal.signal(signal.SIGPROF, _too_long)
    for index in range(block * size, (block + 1) * size):
        signal.alarm(WAIT)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        case = Case.of(seed, index)
        problems = list(case.broken())
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        tally.tried += 1
        given = case.given
        tally.count(
            rule=_kind(case.rule),
            storage=case.storage,
            type=str(given.rows.dtype),
            honest=given.kind,
            attack=given.attack,
        )
        tally.counts.setdefault("aggregations", type(tally.counts["rule"])())["all"] += case.aggregations
        if problems:
            tally.fail(f"{seed}:{index}", f"{case}: {'; '.join(problems)}"[:600])
    return block, tally


def _kind(rule: Any) -> str:
    return " >> ".join(type(part).__name__ for part in (getattr(rule, "before", None), rule) if part is not None)


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"a case took more than {PATIENCE} seconds of computing, or {WAIT} in all")
