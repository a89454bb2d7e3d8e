"""A process that times tasks on request: ``python -m benchmarks._worker MODULE``.

One JSON object a line on standard input, one answer a line on standard output. The module gives
``tasks(n, f) -> {name: bind}`` where ``bind(rows)`` returns the call to time, ``remarks() -> {name: text}`` and
``versions()``. The worker makes its own rows, from the same seed.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._data import gradients
from benchmarks._harness import timed

__all__ = ["main", "peak"]


class _Tasks:
    def __init__(self, module: Any) -> None:
        self.module = module
        self.rows: Any = None
        self.binds: dict[str, Callable[[Any], Callable[[], Any]]] = {}
        self.bound: dict[str, Callable[[], Any]] = {}

    def data(self, n: int, d: int, f: int, data: Any = "gradients", tasks_f: int | None = None) -> dict[str, Any]:
        self.bound.clear()
        self.rows = None
        self.rows = gradients(n, d, f, data)
        self.binds = self.module.tasks(n, f if tasks_f is None else tasks_f)
        return {"tasks": list(self.binds), "remarks": self.module.remarks(), "versions": self.module.versions()}

    def call(self, task: str) -> Callable[[], Any]:
        if task not in self.bound:
            self.bound[task] = self.binds[task](self.rows)
        return self.bound[task]

    def time(self, task: str, calls: int, patience: int = 0) -> dict[str, Any]:
        """Seconds of each call; with `patience`, an error after so many seconds, where Python code is running."""
        signal.alarm(patience)
        try:
            return {"seconds": timed(self.call(task), calls)}
        finally:
            signal.alarm(0)

    def answer(self, task: str, path: str) -> dict[str, Any]:
        call = self.call(task)
        call()
        start = time.perf_counter()
        value = call()
        seconds = time.perf_counter() - start
        np.save(path, np.asarray(value[0] if isinstance(value, list) else value, dtype=np.float64).reshape(-1))
        return {"seconds": seconds}

    def peak(self, task: str) -> dict[str, Any]:
        return {"bytes": peak(self.call(task))}


def peak(call: Callable[[], Any]) -> int:
    """Resident bytes that a call adds at its highest, its answer included.

    The kernel keeps the high-water mark, which is reset before the call. Memory that the allocator holds back is
    returned first, or the call would find it there. What was compiled and started before does not count.
    """
    call()
    call()
    gc.collect()
    _return_free_memory()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    answer = call()
    high = _status("VmHWM")
    del answer
    return max(0, high - before)


def _return_free_memory() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}; peak memory needs Linux.")


def _too_long(*_: object) -> None:
    raise TimeoutError("The task takes too long.")


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGALRM, _too_long)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    tasks = _Tasks(importlib.import_module(sys.argv[1]))
    answers.write(json.dumps({"ready": time.perf_counter() - start}) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(tasks, request.pop("do"))(**request)
        except Exception as error:  # told to whoever asked, who goes on without this task
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
