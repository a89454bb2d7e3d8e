"""One thread takes at most 2.2 times two; calls from several threads and after a fork are right."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import _own
from benchmarks._data import gradients
from benchmarks._findings import Finding
from benchmarks._harness import Timing, interleave, local, ratio
from benchmarks._pipe import Worker
from benchmarks._plans import Plan, Size

__all__ = ["after_a_fork", "beside_torch", "findings", "from_several_threads"]

CLAIM = "threads"
ONE_OVER_TWO = 2.2
RULES = ("Comed", "Krum", "GeometricMedian", "Bulyan", "NNM >> Comed")


def findings(plan: Plan, say: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """One thread against two in two processes, and whether concurrent and forked calls give the same bits."""
    size = plan.table
    say(f"{size}: one thread and two")
    found = []
    with Worker("benchmarks._own", env={"NUMBA_NUM_THREADS": "1"}) as one, Worker("benchmarks._own") as two:
        for worker in (one, two):
            worker.ask("data", n=size.n, d=size.d, f=size.f)
        timings = interleave(
            [one.contender(rule, f"one/{rule}", 0.0) for rule in RULES]
            + [two.contender(rule, f"two/{rule}", 0.0) for rule in RULES],
            rounds=plan.rounds,
            spend=plan.spend,
        )
    for rule in RULES:
        value, low, high = ratio(timings[f"one/{rule}"], timings[f"two/{rule}"])
        facts = {f"{each}_milliseconds": 1e3 * timings[f"{each}/{rule}"].median for each in ("one", "two")}
        found.append(
            Finding(
                CLAIM,
                f"{rule}, one thread over two",
                str(size),
                value,
                "x slower",
                ONE_OVER_TWO,
                low=low,
                high=high,
                facts=facts,
            )
        )
    found += [from_several_threads(size), after_a_fork(size)]
    beside = beside_torch(plan)
    return [*found, beside] if beside else found


def from_several_threads(size: Size, callers: int = 4, calls: int = 3) -> Finding:
    """Four threads call at once: how long, against one after the other; answers must be equal bit for bit."""
    rows = gradients(size.n, size.d, size.f)
    tasks = {rule: _own.tasks(size.n, size.f)[rule](rows) for rule in RULES[:callers]}
    expected = {rule: np.asarray(task()) for rule, task in tasks.items()}
    wrong: list[str] = []

    def work(rule: str) -> None:
        for _ in range(calls):
            if not np.array_equal(tasks[rule](), expected[rule]):
                wrong.append(rule)

    serial = time.perf_counter()
    for rule in tasks:
        work(rule)
    start = time.perf_counter()
    workers = [threading.Thread(target=work, args=(rule,)) for rule in tasks]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    together = time.perf_counter() - start
    note = (
        f"wrong answers: {', '.join(sorted(set(wrong)))}" if wrong else f"{together / (start - serial):.2f} of serial"
    )
    return Finding(CLAIM, "wrong answers from four threads at once", str(size), len(wrong), "answers", 0, note=note)


def after_a_fork(size: Size) -> Finding:
    """A child of a process that has used its threads calls every rule; answers must be equal bit for bit."""
    rows = gradients(size.n, size.d, size.f)
    tasks = {rule: _own.tasks(size.n, size.f)[rule](rows) for rule in RULES}
    expected = {rule: np.asarray(task()) for rule, task in tasks.items()}
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            wrong = [rule for rule, task in tasks.items() if not np.array_equal(task(), expected[rule])]
            os.write(writing, json.dumps(wrong).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        text = answers.read()
    os.waitpid(child, 0)
    wrong = json.loads(text) if text else list(RULES)
    return Finding(
        CLAIM,
        "wrong answers after a fork",
        str(size),
        len(wrong),
        "answers",
        0,
        note=", ".join(wrong) if text else "no answer",
    )


def beside_torch(plan: Plan) -> Finding | None:
    """A torch product and a rule of ours in turn, against each by itself."""
    try:
        import torch
    except ImportError:
        return None
    size = plan.table
    rows = gradients(size.n, size.d, size.f)
    rule: Any = _own.tasks(size.n, size.f)["Comed"](rows)
    tensor = torch.from_numpy(rows)
    shares = torch.full((size.n,), 1 / size.n)

    def both() -> None:
        shares @ tensor
        rule()

    alone = [local("torch", lambda: shares @ tensor, 0.05), local("ours", rule), local("both", both, 0.05)]
    timings = interleave(alone, rounds=plan.rounds, spend=plan.spend)
    apart: Timing = timings["torch"] + timings["ours"]
    value, low, high = ratio(timings["both"], apart)
    return Finding(
        CLAIM, "Comed and a torch product in turn, over each alone", str(size), value, "x", low=low, high=high
    )
