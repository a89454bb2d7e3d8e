"""No rule takes more than 1.25 updates and 4 MB at its highest, its answer included, whatever n."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import _own
from benchmarks._data import Data
from benchmarks._findings import Finding
from benchmarks._pipe import TaskError, Worker
from benchmarks._plans import Size

__all__ = ["TASKS", "findings"]

CLAIM = "peak_memory"
TASKS = (
    "Mean",
    *_own.MAIN,
    *_own.ALONE,
    "Krum p=16",
    "GeometricMedian p=3",
    "sixteen distances",
    *(f"NNM >> {name}" for name in _own.CHAINED),
    *(f"pool {place}" for place in (0, 35, 53, 58, 63)),
)
# Every block of size is mapped on its own and given back at once, so that none is there before the clock starts.
_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "2"}


def findings(size: Size, data: Data = "gradients", say: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """Megabytes that a call adds at its highest, for each rule, in a process of its own."""
    limit = (1.25 * 4 * size.d + 4e6) / 1e6
    found = []
    say(f"{size}: peak memory")
    with Worker("benchmarks._own", env=_ENVIRONMENT) as worker:
        worker.ask("data", n=size.n, d=size.d, f=size.f, data=data)
        for task in TASKS:
            try:
                megabytes = worker.ask("peak", task=task)["bytes"] / 1e6
            except TaskError as error:
                found.append(Finding(CLAIM, task, str(size), float("nan"), "MB", limit, note=str(error)))
                continue
            facts = {"updates": megabytes * 1e6 / (4 * size.d)}
            what = task if data == "gradients" else f"{task}, one row at 1e30"
            found.append(Finding(CLAIM, what, str(size), megabytes, "MB", limit, facts=facts))
    return found
