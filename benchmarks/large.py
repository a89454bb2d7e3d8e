"""What can be done with ten thousand updates, or with a thousand that do not fit memory: time and memory.

Every rule runs in a process of its own, whose highest memory is read at its end. Times and files grow with d, so that
fewer coordinates are measured than training has; the page says which.

``python -m benchmarks.large N D FOLDER RULE`` runs one of them on files; without a folder ("-"), in memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mixtailor as mt
from benchmarks._findings import Finding
from benchmarks._pipe import ROOT
from benchmarks._plans import Plan

__all__ = ["RULES", "findings"]

CLAIM = "large"
SKETCH = 1024


def _rules(n: int) -> dict[str, mt.Rule]:
    f = n // 20
    branches = max(4, round(n ** (2 / 3)))
    return {
        "Mean": mt.Mean(),
        "TrimmedMean": mt.TrimmedMean(f),
        "GeometricMedian, sketched": mt.Sketched(mt.GeometricMedian(), sketch=SKETCH),
        "Krum, sketched": mt.Sketched(mt.Krum(f), sketch=SKETCH),
        "Tree of Krum and Comed": mt.Tree(branches, mt.Krum(f), mt.Comed()),
        "Krum": mt.Krum(f),
    }


RULES = tuple(_rules(100))


def findings(plan: Plan, say: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """Seconds of one call, with the megabytes that it added, for each rule and size."""
    found = []
    for n, d, in_files in plan.large:
        with tempfile.TemporaryDirectory() as folder:
            if in_files:
                say(f"large: {n} files of {4 * d / 1e6:.3g} MB")
                _write(Path(folder), n, d)
            for name in RULES:
                say(f"large: {name}, n = {n:,}, d = {d:,}")
                where = folder if in_files else "-"
                command = [sys.executable, "-m", "benchmarks.large", str(n), str(d), where, name]
                ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
                told = json.loads(ran.stdout)
                note = f"{told['megabytes']:.0f} MB more{' than the process had' if in_files else ' than the updates'}"
                size = f"({n:,}, {d:,}){' from files' if in_files else ''}"
                found.append(Finding(CLAIM, name, size, told["seconds"], "seconds", note=note, facts=told))
    return found


def _rows(n: int, d: int, start: int = 0) -> Any:
    """Rows that share a direction, of normal numbers; drawn one by one, which takes no memory beside them."""
    shared = np.random.default_rng(1).standard_normal(d, dtype=np.float32)
    rows = np.empty((n, d), np.float32)
    for row in range(n):
        np.random.default_rng([2, start + row]).standard_normal(d, dtype=np.float32, out=rows[row])
        rows[row] += 0.5 * shared
    return rows


def _write(folder: Path, n: int, d: int) -> None:
    for row in range(n):
        np.save(folder / f"{row:05d}.npy", _rows(1, d, row)[0])


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _run(n: int, d: int, folder: str, name: str) -> dict[str, float]:
    rule = _rules(n)[name]
    small = _rows(n, 64)
    rule(small)  # compiles, at the same number of rows
    updates = _rows(n, d) if folder == "-" else sorted(Path(folder).glob("*.npy"))
    before, start = _peak(), time.perf_counter()
    rule(updates)
    return {"seconds": time.perf_counter() - start, "megabytes": _peak() - before}


if __name__ == "__main__":
    print(json.dumps(_run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])))
