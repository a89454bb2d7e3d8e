"""Right after an operation of torch's, as in every training loop, rules take longer: its OpenMP threads still wait.

They wait by spinning on the processors that our threads need, for some milliseconds. ``OMP_WAIT_POLICY=PASSIVE`` makes
them sleep at once. It is read when torch is loaded, so each policy has a process of its own.

``python -m benchmarks.after_torch`` prints the milliseconds of this process.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import mixtailor as mt
from benchmarks._data import gradients
from benchmarks._findings import Finding
from benchmarks._pipe import ROOT
from benchmarks._plans import Plan, Size

__all__ = ["findings"]

CLAIM = "after_torch"
LIMIT = 1.2  # in units of the same call without torch before it
POLICIES = {"as torch comes": {}, "OMP_WAIT_POLICY=PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"}}


def findings(plan: Plan, say: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """A call right after a matrix product of torch's, over the same call some time after it, in each policy."""
    try:
        import torch  # noqa: F401  # only whether it is there
    except ImportError:
        return []
    found = []
    size, rounds = plan.table, 1 if plan.rounds == 1 else 3 + 4 * plan.rounds
    for policy, environment in POLICIES.items():
        say(f"right after torch, {policy}")
        plain = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
        command = [sys.executable, "-m", "benchmarks.after_torch", str(size.n), str(size.d), str(rounds)]
        ran = subprocess.run(
            command, cwd=ROOT, env={**plain, **environment}, stdout=subprocess.PIPE, text=True, check=True
        )
        for name, (after, alone) in json.loads(ran.stdout).items():
            passive = bool(environment)
            note = f"{1e3 * after:.3g} ms, alone {1e3 * alone:.3g} ms"
            found.append(
                Finding(
                    CLAIM,
                    f"{name}, {policy}",
                    str(size),
                    after / alone,
                    "x alone",
                    LIMIT if passive else None,
                    note=note,
                )
            )
    return found


def _measured(size: Size, rounds: int) -> dict[str, tuple[float, float]]:
    import torch

    rows = gradients(size.n, size.d, size.f)
    f = size.f
    rules = {"Mean": mt.Mean(), "Comed": mt.Comed(), "Krum": mt.Krum(f), "NNM >> Comed": mt.NNM(f) >> mt.Comed()}
    square = torch.ones(1024, 1024)
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in rules}
    for turn in range(rounds + 1):
        for name, rule in rules.items():
            for place, pause in enumerate((0.0, 0.1)):  # at once, and when its threads are asleep
                square @ square
                time.sleep(pause)
                taken = _seconds(rule, rows)
                if turn:  # the first turn compiles
                    times[name][place].append(taken)
    return {name: (statistics.median(after), statistics.median(alone)) for name, (after, alone) in times.items()}


def _seconds(rule: mt.Rule, rows: Any) -> float:
    start = time.perf_counter()
    rule(rows)
    return time.perf_counter() - start


if __name__ == "__main__":
    n, d, rounds = (int(argument) for argument in (*sys.argv[1:], *("12", "1048576", "21")[len(sys.argv) - 1 :]))
    print(json.dumps(_measured(Size(n, d), rounds)))
