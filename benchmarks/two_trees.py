"""Two source trees in turns, to see what a change costs: ``python -m benchmarks.two_trees OLD/src [NEW/src]``.

Each tree runs in a process of its own, and the two are asked in turns, so that a noisy machine slows both. The table
has the median time of each tree and the median of the ratios within one turn.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RULES = {
    "Mean": "mt.Mean()",
    "Comed": "mt.Comed()",
    "TrimmedMean": "mt.TrimmedMean(f=2)",
    "Krum": "mt.Krum(f=2)",
    "Krum, p = 1": "mt.Krum(f=2, p=1)",
    "GeometricMedian": "mt.GeometricMedian()",
    "Bulyan": "mt.Bulyan(f=2)",
    "CAF": "mt.CAF(f=2)",
    "DnC": "mt.DnC(f=2)",
    "NNM >> Krum": "mt.NNM(f=2) >> mt.Krum(f=2)",
    "NNM >> TrimmedMean": "mt.NNM(f=2) >> mt.TrimmedMean(f=2)",
}
SHAPES = ((12, 1 << 20, 5), (12, 21_840, 40), (12, 1_000, 100))  # rows, coordinates, calls in one turn

_WORKER = """
import json, statistics, sys, time
import numpy as np
import mixtailor as mt
for line in sys.stdin:
    rule, n, d, calls = json.loads(line)
    rule, rows = eval(rule), np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    rule(rows)
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        rule(rows)
        times.append(time.perf_counter() - start)
    print(statistics.median(times), flush=True)
"""


class Tree:
    """One source tree, in a process of its own."""

    def __init__(self, source: Path) -> None:
        # Kernels compiled by one tree must not be loaded by the other.
        cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / f"mixtailor-trees{source.parent}"
        environment = {**os.environ, "PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(cache)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def seconds(self, rule: str, n: int, d: int, calls: int) -> float:
        """The median time of a call."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([rule, n, d, calls]), file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def compare(old: Any, new: Any, rule: str, shape: tuple[int, int, int], turns: int) -> tuple[float, float, float]:
    """The median seconds of both, and the median ratio of new to old within one turn."""
    n, d, calls = shape
    pairs = [(old.seconds(rule, n, d, calls), new.seconds(rule, n, d, calls)) for _ in range(turns)]
    before, after = zip(*pairs, strict=True)
    return statistics.median(before), statistics.median(after), statistics.median(b / a for a, b in pairs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_trees", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=Path(__file__).parents[1] / "src")
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args(arguments)
    old, new = Tree(given.old.resolve()), Tree(given.new.resolve())
    print("| rows x coordinates | rule | old, ms | new, ms | ratio |\n|---|---|---|---|---|")
    for shape in SHAPES:
        for name, rule in RULES.items():
            before, after, ratio = compare(old, new, rule, shape, given.turns)
            times = f"{before * 1e3:.3f} | {after * 1e3:.3f} | {ratio:.2f}"
            print(f"| {shape[0]} x {shape[1]:,} | {name} | {times} |", flush=True)
    old.close()
    new.close()


if __name__ == "__main__":
    main()
