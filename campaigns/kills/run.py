"""The campaign: trials of one victim each, killed a few times and then left to finish."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from campaigns._ledger import Clock, Ledger, Tally, report
from campaigns.kills.disk import small
from campaigns.kills.victims import VICTIMS, Victim

VARIANTS = 3  # undisturbed runs to compare with, for each victim
PATIENCE = 300.0  # seconds that a victim may take once it is left alone


def campaign(kills: int, seed: int, *, state: Path | None = None) -> dict[str, Any]:
    """Kill so many times in all; each fourth trial fills the disk instead."""
    ledger, clock = Ledger.opened(state, "kills", seed), Clock()
    index = ledger.through
    while ledger.counts.get("kills", {}).get("all", 0) < kills:
        ledger.add(index, trial(seed, index))
        ledger.seconds += clock.lap()
        ledger.save(state)
        index += 1
        print(f"{ledger.counts.get('kills', {})} kills, {ledger.failed} failed", file=sys.stderr, flush=True)
    return report(ledger, kills=ledger.counts["kills"]["all"])


def repeat(seed: str) -> list[str]:
    """What one trial breaks. The moments of its kills are the seed's, though the machine decides what they hit."""
    first, second = seed.split(":")
    return [failure["what"] for failure in trial(int(first), int(second)).failures]


def trial(seed: int, index: int) -> Tally:
    """One victim, in a folder of its own."""
    rng, tally = np.random.default_rng([seed, index]), Tally(tried=1)
    victim = VICTIMS[list(VICTIMS)[index % len(VICTIMS)]]
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    variant = int(rng.integers(VARIANTS))
    tally.count(victim=victim.name)
    try:
        problems = (_full if rng.random() < 0.25 else _killed)(victim, folder, variant, rng, tally)
    except Exception:  # a check that cannot read what a kill left
        problems = [traceback.format_exc(limit=-3)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for problem in problems:
        tally.fail(f"{seed}:{index}", f"{victim.name}: {problem}"[:600])
    return tally


@cache
def undisturbed(name: str, variant: int) -> tuple[Any, float]:
    """The result of a run that nothing disturbs, and how long it takes."""
    victim, told = VICTIMS[name], []
    for _ in range(2):  # the first one compiles
        told.clear()
        with tempfile.TemporaryDirectory() as folder:
            started = time.monotonic()
            victim.work(Path(folder), variant, told.append)
    return json.loads(json.dumps(told[-1])), time.monotonic() - started


def _killed(victim: Victim, folder: Path, variant: int, rng: np.random.Generator, tally: Tally) -> list[str]:
    expected, duration = undisturbed(victim.name, variant)
    told: list[Any] = []
    for _ in range(int(rng.integers(2, 7))):
        child, pipe = _forked(lambda tell: victim.work(folder, variant, tell))
        time.sleep(float(rng.uniform(0.0, 1.1)) * duration)
        os.kill(child, signal.SIGKILL)
        heard, ended = _heard(pipe), os.waitpid(child, 0)[1]
        told += heard
        if os.WIFSIGNALED(ended):
            tally.count(kills="all", killed=victim.name)
        elif ended:
            return [f"ended by itself: {heard[-1:]}"]
        problems = list(victim.broken(folder, variant, told))
        if problems:
            return problems
    child, pipe = _forked(lambda tell: victim.work(folder, variant, tell))
    heard, ended = _heard(pipe), os.waitpid(child, 0)[1]
    told += heard
    if ended:
        return [f"could not go on after its kills: {heard[-1:]}"]
    problems = list(victim.broken(folder, variant, told))
    return (
        problems if victim.same(heard[-1], expected) else [*problems, f"ends in {heard[-1]!r:.200}, not as undisturbed"]
    )


def _full(victim: Victim, folder: Path, variant: int, rng: np.random.Generator, tally: Tally) -> list[str]:
    """The disk fills up, the work fails with the system's words, room is made, and the work goes on."""
    expected, _ = undisturbed(victim.name, variant)
    size = int(rng.choice([4096, 8192, 16384, 32768, 65536, 131072]))

    def work(tell: Callable[[Any], None]) -> None:
        how, room = small(folder, size)
        tell(["how", how])
        told: list[Any] = []
        try:
            victim.work(folder, variant, told.append)
            tell(["fits", how])
        except (OSError, ValueError) as error:
            if not any(word in str(error) for word in ("No space left", "File too large")):
                raise
            tell(["full", how])
        room()
        problems = list(victim.broken(folder, variant, told))
        victim.work(folder, variant, told.append)
        problems += list(victim.broken(folder, variant, told))
        tell({"problems": problems, "result": told[-1]})

    child, pipe = _forked(work)
    heard, ended = _heard(pipe), os.waitpid(child, 0)[1]
    tally.count(disk=" ".join(heard[1]) if len(heard) > 1 and isinstance(heard[1], list) else "failed")
    if ended or not heard or not isinstance(heard[-1], dict):
        return [f"a full disk ({size} bytes): {heard[-1:]}"]
    found = heard[-1]
    wrong = [] if victim.same(found["result"], expected) else [f"ends in {found['result']!r:.200} after a full disk"]
    return [*found["problems"], *wrong]


def _forked(work: Callable[[Callable[[Any], None]], None]) -> tuple[int, int]:
    """A child that works, and the pipe through which it tells; forked, for starting Python costs more than the work."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    code = 1
    try:
        os.close(reading)
        signal.alarm(int(PATIENCE))
        work(lambda item: _tell(writing, item))
        code = 0
    except BaseException:
        _tell(writing, {"error": traceback.format_exc(limit=-4)})
    finally:
        os._exit(code)


def _tell(pipe: int, item: Any) -> None:
    data = memoryview(json.dumps(item).encode() + b"\n")
    while data:
        data = data[os.write(pipe, data) :]


def _heard(pipe: int) -> list[Any]:
    """All that a child told; a line that its end cut off was not told."""
    with open(pipe, "rb") as file:
        return [json.loads(line) for line in file.read().split(b"\n")[:-1]]
