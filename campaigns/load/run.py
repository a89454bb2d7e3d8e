"""The campaign: one large matrix and every kind of rule on it, again and again, for so many minutes."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import mixtailor as mt

RULES = (mt.Krum(2), mt.Comed(), mt.TrimmedMean(2), mt.GeometricMedian(), mt.NNM(2) >> mt.Comed(), mt.Bulyan(2))
FLAT = 32 << 20  # bytes that memory may grow by after the first minute: allocators keep some


def campaign(
    minutes: float, seed: int, *, n: int = 12, d: int | None = None, state: Path | None = None
) -> dict[str, Any]:
    """Aggregate n rows of d coordinates, by default the most that fit, for so many minutes; then threads and forks."""
    d = fitting(n) if d is None else d
    rng = np.random.default_rng(seed)
    rows = np.empty((n, d), np.float32)
    for row in rows:
        rng.standard_normal(dtype=np.float32, out=row)
    expected = [_digest(rule(rows)) for rule in RULES]
    failures: list[dict[str, str]] = []
    spent: list[list[float]] = [[] for _ in RULES]
    memory = [_resident()]
    end, calls = time.monotonic() + 60 * minutes, 0
    while time.monotonic() < end:
        for k, rule in enumerate(RULES):
            started = time.process_time()
            answer = rule(rows)
            spent[k].append(time.process_time() - started)
            calls += 1
            if _digest(answer) != expected[k]:
                failures.append({"seed": f"{seed}:{calls}", "what": f"{rule!r} answers differently in call {calls}"})
            del answer
        memory.append(_resident())
        print(f"{calls:,} calls, {memory[-1] >> 20:,} MB", file=sys.stderr, flush=True)
    grown = memory[-1] - memory[min(len(memory) - 1, 2)]
    if grown > FLAT:
        failures.append({"seed": str(seed), "what": f"memory grew by {grown:,} bytes over {calls} calls"})
    failures += [{"seed": str(seed), "what": problem} for problem in (*together(seed), *edges())]
    return {
        "campaign": "load", "seed": seed, "tried": calls, "failed": len(failures), "minutes": minutes, "n": n, "d": d,
        "memory_first": memory[0], "memory_last": memory[-1], "memory_grown": grown,
        "seconds_of_computing": {repr(rule): _halves(times) for rule, times in zip(RULES, spent, strict=True)},
        "failures": failures,
    }  # fmt: skip


def fitting(n: int) -> int:
    """How many coordinates n rows may have to fill three fifths of the memory that is free."""
    meminfo = Path("/proc/meminfo")
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    free = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")), 1 << 30)
    return max(1, int(0.6 * free / (4 * n)))


def _digest(answer: Any) -> bytes:
    return sha256(answer).digest()


def _halves(times: list[float]) -> list[float]:
    """The median time of a call in the first and in the last third of all calls."""
    third = max(1, len(times) // 3)
    return [round(statistics.median(part), 4) for part in (times[:third], times[-third:])] if times else []


def _resident() -> int:
    fields = Path("/proc/self/statm").read_text().split() if Path("/proc/self/statm").exists() else ["0", "0"]
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def together(seed: int, *, threads: int = 4, calls: int = 20, d: int = 20_000) -> list[str]:
    """Calls from several threads at once, and from forked children of a process that has threads: the same bits."""
    rows = np.random.default_rng(seed).standard_normal((12, d), dtype=np.float32)
    expected = [rule(rows) for rule in RULES]
    problems: list[str] = []

    def ask(offset: int) -> None:
        for call in range(calls):
            k = (call + offset) % len(RULES)
            if not np.array_equal(RULES[k](rows), expected[k]):
                problems.append(f"{RULES[k]!r} answers differently in a thread")

    workers = [threading.Thread(target=ask, args=(offset,)) for offset in range(threads)]
    for worker in workers:
        worker.start()
    if hasattr(os, "fork"):
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=_child, args=(rows, expected)) for _ in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join(300)
            if child.exitcode != 0:
                problems.append(f"a forked process ended with {child.exitcode}")
                child.kill()
    for worker in workers:
        worker.join(300)
    return problems


def _child(rows: Any, expected: Any) -> None:
    same = all(np.array_equal(rule(rows), answer) for rule, answer in zip(RULES, expected, strict=True))
    os._exit(0 if same else 3)


def edges() -> list[str]:
    """A thousand clients, one client, one coordinate, none."""
    problems = []
    rng = np.random.default_rng(0)
    many = rng.standard_normal((1000, 100_000), dtype=np.float32)
    many[:100] = 1e30
    for rule in (mt.Krum(100), mt.Comed(), mt.TrimmedMean(100)):
        if not np.abs(rule(many)).max() < 10:
            problems.append(f"{rule!r} on 1,000 x 100,000 is moved by a hundred far rows")
    del many
    for shape in ((1, 7), (9, 1), (9, 0), (1, 0)):
        rows = rng.standard_normal(shape).astype(np.float32)
        for rule in (mt.Comed(), mt.GeometricMedian(), mt.Medoid(), mt.Krum(2), mt.NNM(2) >> mt.Comed()):
            if rule.min_rows() <= shape[0] and rule(rows).shape != shape[1:]:
                problems.append(f"{rule!r} on {shape} gives another shape")
    return problems


def repeat(seed: str) -> list[str]:
    """Threads, forks and edges alone; what an hour shows needs the hour."""
    return [*together(int(seed.split(":")[0])), *edges()]
