"""The progress of a sweep, on a terminal only."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Protocol

from mixtailor.simulation.progress import Live, display

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixtailor.experiments.running import Finished
    from mixtailor.simulation.progress import Progress

__all__ = ["Watch", "watched_runs"]


class Watch(Protocol):
    """Callbacks for the progress of a sweep."""

    def begun(self, known: int, whole: int) -> None:
        """It starts, with so many runs of all complete already."""

    def running(self, title: str, rounds: int) -> Progress | None:
        """A run starts in this process; returns the callbacks for its rounds."""

    def finished(self, done: Finished, count: int, whole: int) -> None:
        """A run is over, the `count`-th of all."""


@contextlib.contextmanager
def watched_runs() -> Iterator[Watch | None]:
    """Live lines on stderr where that is a terminal: runs done and time left, and the rounds of a run made here.

    Examples
    --------
    >>> with watched_runs() as watch:
    ...     print(watch)
    None
    """
    with display() as bar:
        yield None if bar is None else _Shown(bar)


class _Shown:
    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._runs: Any = None
        self._rounds: Any = None
        self._known, self._start = 0, 0.0

    def begun(self, known: int, whole: int) -> None:
        self._forget()
        if self._runs is not None:
            self._bar.remove_task(self._runs)
        self._known, self._start = known, time.monotonic()
        visible = whole - known > 1  # one run alone needs no line that counts runs
        fields = {"facts": "", "detail": "", "pace": (None, 0.0)}
        self._runs = self._bar.add_task("runs", total=whole, completed=known, visible=visible, **fields)

    def running(self, title: str, rounds: int) -> Progress:
        self._forget()
        shown = Live(self._bar, title, rounds)
        self._rounds = shown.task
        return shown

    def finished(self, done: Finished, count: int, whole: int) -> None:
        self._forget()
        told = "failed" if done.error else "" if done.accuracy is None else f"{100 * done.accuracy:.1f} %"
        now = time.monotonic()
        pace = ((now - self._start) / (count - self._known), now)
        self._bar.update(self._runs, completed=count, total=whole, facts=told, detail=done.title, pace=pace)

    def _forget(self) -> None:
        if self._rounds is not None:
            self._bar.remove_task(self._rounds)
            self._rounds = None
