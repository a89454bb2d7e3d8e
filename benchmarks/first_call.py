"""A first call is quick: under 10 s when it compiles, a tenth of a second with a warm cache, 2 s for a new n or p.

All of `default_pool`, and `recommended`, compile in 5 s, Krum and the paper's pool in 15 s.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

from benchmarks._findings import Finding
from benchmarks._pipe import ROOT

__all__ = ["findings", "import_time"]

CLAIM = "first_call"
COLD, WARM, NEW, IMPORT = 10.0, 0.1, 2.0, 0.5
POOLS = {
    "default_pool": 5.0,
    "recommended": 5.0,
    "krum,paper_pool": 15.0,
}  # seconds for every rule of them on an empty cache


def _python(*arguments: str, env: Mapping[str, str] | None = None) -> str:
    command = [sys.executable, *arguments]
    ran = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, text=True, check=True
    )
    return ran.stdout.splitlines()[-1]


def _first(cache: str, *names: tuple[str, int]) -> list[float]:
    arguments = [str(part) for pair in names for part in pair]
    seconds: list[float] = json.loads(_python("-m", "benchmarks._first", *arguments, env={"NUMBA_CACHE_DIR": cache}))
    return seconds


def import_time(repeats: int) -> Finding:
    """``import mixtailor``, which loads numba on first use and not before; each in fresh processes, in turn."""
    code = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    pairs = [[float(_python("-c", code.format(name))) for name in ("numba", "mixtailor")] for _ in range(repeats)]
    note = f"import numba, which waits for the first call: {statistics.median(numba for numba, _ in pairs):.2f} s"
    own = statistics.median(own for _, own in pairs)
    return Finding(CLAIM, "import mixtailor", "", own, "seconds", IMPORT, note=note)


def pools(names: Mapping[str, float] = POOLS) -> list[Finding]:
    """First calls of every rule of a pool, one after the other, on an empty cache: what ``mixtailor warm`` takes."""
    found = []
    for name, limit in names.items():
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            command = [sys.executable, "-m", "mixtailor", "warm", "--rules", name, "--json"]
            ran = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        told = json.loads(ran.stdout)
        kernels = sum(len(each["compiled"]) for each in told["rules"])
        note = f"{kernels} kernels for {len(told['rules'])} rules"
        found.append(
            Finding(CLAIM, f"{name}, every rule, cold", "(12, 21,840)", told["seconds"], "seconds", limit, note=note)
        )
    return found


def findings(rules: Sequence[str], repeats: int = 3, say: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """For each rule: compiling, from the warm cache in a fresh process, and for a number of rows not seen before."""
    found = [import_time(repeats)]
    for rule in rules:
        say(f"first call: {rule}")
        with tempfile.TemporaryDirectory() as cache:
            cold = _first(cache, (rule, 12))[1]
            warm = [_first(cache, (rule, 12)) for _ in range(repeats)]
            # In one process: the first call takes what is cached, the second what a new number of rows adds.
            new_n = _first(cache, (rule, 12), (rule, 13))[2]
        over = statistics.median(own for _, own in warm)
        numba = statistics.median(own for own, _ in warm)
        found += [
            Finding(CLAIM, f"{rule}, cold", "(12, 21,840)", cold, "seconds", COLD),
            Finding(
                CLAIM,
                f"{rule}, warm",
                "(12, 21,840)",
                over,
                "seconds",
                WARM,
                note=f"after an empty cached function, which took {numba:.2f} s",
            ),
            Finding(CLAIM, f"{rule}, a new n", "(13, 21,840)", new_n, "seconds", NEW),
        ]
    if "CAF" in rules:  # not in a quick run: the paper's pool compiles for half a minute
        say("first call: pools")
        found += pools()
    if "Krum" in rules:
        say("first call: a new p")
        with tempfile.TemporaryDirectory() as cache:
            new_p = _first(cache, ("Krum", 12), ("Krum p=5", 12), ("GeometricMedian p=5", 12))
        found += [
            Finding(CLAIM, "Krum, a new p", "(12, 21,840)", new_p[2], "seconds", NEW),
            Finding(
                CLAIM,
                "GeometricMedian, its first p other than 2",
                "(12, 21,840)",
                new_p[3],
                "seconds",
                COLD,
                note="kernels of its own, so this is a cold call",
            ),
        ]
    return found
