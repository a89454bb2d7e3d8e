"""What is compiled in this process: for the message to someone who waits, and for ``mixtailor warm``."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["MESSAGE", "WATCH", "Compiled", "Watch", "tell_terminal"]

PATIENCE = 1.0  # seconds of compiling, after which a terminal is told
MESSAGE = (
    "mixtailor compiles its kernels for this machine. Each is compiled once and then kept on disk. "
    "To compile ahead of time: mixtailor warm"
)


@dataclass(frozen=True)
class Compiled:
    """A kernel that was compiled, with everything that it calls."""

    kernel: str
    seconds: float


def tell_terminal() -> None:
    """Print the message where a person reads it, and nowhere else."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(MESSAGE, file=sys.stderr)


class Watch:
    """Follows compilations, of which one may begin inside another. numba compiles in one thread at a time.

    Other packages' functions do not count, unless our kernels call them.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, tell: Callable[[], None] = tell_terminal
    ) -> None:
        self._clock, self._say = clock, tell
        self._open: list[str] = []  # names of what is being compiled, the outermost first
        self._since = 0.0
        self._spent = 0.0
        self._told = False
        self._lists: list[list[Compiled]] = []

    def begin(self, function: Any) -> None:
        """A function is compiled from now on."""
        if not self._open:
            self._since = self._clock()
        self._open.append(f"{function.__module__}.{function.__name__}")
        self._tell()

    def end(self) -> None:
        """The function that began last is compiled."""
        self._tell()
        name = self._open.pop()
        if self._open or not _ours(name):
            return
        seconds = self._clock() - self._since
        self._spent += seconds
        for each in self._lists:
            each.append(Compiled(name.removeprefix("mixtailor.kernels."), seconds))

    def _tell(self) -> None:
        if self._told or not _ours(self._open[0]) or self._spent + self._clock() - self._since < PATIENCE:
            return
        self._told = True
        self._say()

    @contextlib.contextmanager
    def listed(self) -> Iterator[list[Compiled]]:
        """A list of what is compiled meanwhile. No message is printed then: whoever lists it, says it."""
        found: list[Compiled] = []
        self._lists.append(found)
        before, self._told = self._told, True
        try:
            yield found
        finally:
            self._told = before
            self._lists = [each for each in self._lists if each is not found]


def _ours(name: str) -> bool:
    return name.startswith("mixtailor.")


WATCH = Watch()  # numba has one list of listeners for the process
