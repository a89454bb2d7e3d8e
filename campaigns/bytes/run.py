"""The campaign: damaged files by our own mutator; with atheris, by one that is led by the code it reaches."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from campaigns._ledger import Clock, Ledger, Tally, report
from campaigns.bytes.check import Reader
from campaigns.bytes.mutate import mutated
from campaigns.bytes.targets import TARGETS

BLOCK = 250
PATIENCE = 20.0  # seconds of computing that one file may take
CORPUS = Path(__file__).resolve().parents[1] / "corpus"


def campaign(count: int, seed: int, *, state: Path | None = None) -> dict[str, Any]:
    """So many damaged files for every target."""
    ledger, clock = Ledger.opened(state, "bytes", seed), Clock()
    size = min(BLOCK, count)
    blocks = [(name, k) for k in range(-(-count // size)) for name in TARGETS]
    for place, (name, block) in enumerate(blocks):
        if ledger.finished(place):
            continue
        ledger.add(place, _block(name, seed, block * size, size))
        ledger.seconds += clock.lap()
        ledger.save(state)
        if place % len(TARGETS) == 0:
            print(f"{ledger.tried:,} tried, {ledger.failed} failed", file=sys.stderr, flush=True)
    return report(ledger)


def damaged(name: str, seed: int, index: int) -> bytes:
    """The file of a seed."""
    return mutated(np.random.default_rng([seed, list(TARGETS).index(name), index]), corpus(name))


def corpus(name: str) -> list[bytes]:
    """The stored files of a target."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def repeat(seed: str) -> list[str]:
    """What reading one file breaks, by the seed that a failure names."""
    name, first, second = seed.split(":")
    with Reader(name) as reader:
        problem = reader.broken(damaged(name, int(first), int(second)))
    return [] if problem is None else [problem]


def _block(name: str, seed: int, start: int, size: int) -> Tally:
    tally = Tally()
    signal.signal(signal.SIGPROF, _too_long)
    with Reader(name) as reader:
        for index in range(start, start + size):
            data = damaged(name, seed, index)
            signal.setitimer(signal.ITIMER_PROF, PATIENCE)
            try:
                problem = reader.broken(data)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            tally.tried += 1
            tally.count(target=name)
            if problem is not None:
                tally.fail(f"{name}:{seed}:{index}", f"{name}: {problem}"[:600])
    return tally


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"a file took more than {PATIENCE} seconds")


def make_corpus() -> None:
    """Write the whole files of every target to the corpus."""
    for name, target in TARGETS.items():
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        for number, whole in enumerate(target.whole()):
            (CORPUS / name / str(number)).write_bytes(whole)
