"""20 files of 1 GB aggregate in under 3 GB of memory, by the command line.

``python -m benchmarks.files_in_little_memory --files 20 --megabytes 1000``
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks._findings import Finding
from benchmarks._pipe import ROOT

__all__ = ["findings"]

CLAIM = "files_in_little_memory"
LIMIT = 3.0
RULES = ("comed", "krum", "nnm >> trimmed_mean")
_RUN = 1 << 22
# A small process in between: the kernel counts the memory of whoever starts a program as the program's own highest.
_BETWEEN = (
    "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(code)"
)


def _write(folder: Path, count: int, d: int) -> list[Path]:
    """Rows that share a part, as gradients do: one run of normal numbers, shifted by another amount for each row."""
    random = np.random.default_rng(0)
    shared = random.standard_normal(_RUN, np.float32)
    paths = []
    for row in range(count):
        own = shared + np.float32(0.5) * random.standard_normal(_RUN, np.float32)
        path = folder / f"update{row:02}.npy"
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (d,)})
            for start in range(0, d, _RUN):
                own[: min(_RUN, d - start)].tofile(file)
        paths.append(path)
    return paths


def _aggregate(rule: str, paths: Sequence[Path], out: Path) -> tuple[dict[str, float], float, float]:
    """What the command says, its seconds, and the highest resident memory of its process in GB."""
    command = [
        sys.executable,
        "-c",
        _BETWEEN,
        sys.executable,
        "-m",
        "mixtailor",
        "aggregate",
        *map(str, paths),
        "-o",
        str(out),
        "--rule",
        rule,
        "--json",
    ]
    command += [] if rule == "comed" else ["--f", str(max(1, len(paths) // 5))]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"`mixtailor aggregate --rule {rule}` ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout), seconds, int(done.stderr.split()[-1]) * 1024 / 1e9


def findings(count: int, d: int, say: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """Gigabytes at the highest, for each rule, in a process of its own."""
    size = f"{count} files of {4 * d / 1e6:,.0f} MB"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        needed = 4 * d * (count + 2)
        if shutil.disk_usage(folder).free < needed:
            say(f"{size} need {needed / 1e9:.0f} GB of disk, and there is less.")
            return []
        say(f"{size}: writing")
        paths = _write(folder, count, d)
        found = []
        for rule in RULES:
            say(f"{size}: {rule}")
            told, seconds, peak = _aggregate(rule, paths, folder / "answer.npy")
            facts = {"seconds": round(seconds, 1), "passes": told["passes"]}
            found.append(Finding(CLAIM, rule, size, peak, "GB", LIMIT, facts=facts))
        return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.files_in_little_memory", description=__doc__)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=1000)
    chosen = parser.parse_args()
    for finding in findings(chosen.files, chosen.megabytes * 250_000, lambda text: print(text, file=sys.stderr)):
        print(finding)


if __name__ == "__main__":
    main()
