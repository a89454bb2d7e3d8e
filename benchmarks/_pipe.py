"""The other end of a worker: start one, ask it, end it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks._harness import SETTLE, Contender

__all__ = ["ROOT", "TaskError", "Worker"]

ROOT = Path(__file__).resolve().parent.parent


class TaskError(RuntimeError):
    """A task failed in a worker; the worker itself goes on."""


class Worker:
    """A process that times the tasks of a module, in an environment of its own."""

    def __init__(self, module: str, python: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [str(python or sys.executable), "-m", "benchmarks._worker", module],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.ready = float(self._read()["ready"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise TaskError(f"The worker ended with exit code {self._process.wait()}.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise TaskError(answer["error"])
        return answer

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def contender(self, task: str, key: str, settle: float = SETTLE) -> Contender:
        """A task as a contender among those of this process."""
        return Contender(key, lambda calls: self.ask("time", task=task, calls=calls)["seconds"], settle)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
