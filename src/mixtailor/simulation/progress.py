"""The progress of a run, on a terminal only."""

from __future__ import annotations

import contextlib
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Live", "Progress", "Silent", "display", "watched"]


class Progress(Protocol):
    """Callbacks for the progress of a simulation."""

    def round(self, done: int, drawn: str) -> None:
        """A round is over, with the rule that was applied."""

    def evaluated(self, record: Mapping[str, object]) -> None:
        """An evaluation is over."""


class Silent:
    """Says nothing.

    Examples
    --------
    >>> Silent().round(1, "Krum(f=2)")
    """

    def round(self, done: int, drawn: str) -> None:
        """Nothing."""

    def evaluated(self, record: Mapping[str, object]) -> None:
        """Nothing."""


@contextlib.contextmanager
def watched(rounds: int, *, title: str = "training") -> Iterator[Progress]:
    """A live line on stderr where that is a terminal: rounds, accuracy, rounds per second, time left, the rule drawn.

    Examples
    --------
    >>> with watched(10) as progress:
    ...     progress.round(1, "Comed()")
    """
    with display() as bar:
        yield Silent() if bar is None else Live(bar, title, rounds)


@contextlib.contextmanager
def display() -> Iterator[Any]:
    """Rich's bars on stderr, one line a task, or None where that is no terminal; they are removed afterwards."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.table import Column
    from rich.text import Text

    class Left(ProgressColumn):
        """By the pace that was set for the task: rich's own forgets after half a minute, and runs may take hours."""

        def render(self, task: Any) -> Text:
            pace, since = task.fields["pace"]
            if pace is None:
                return Text("-:--:--", style="progress.remaining")
            left = max(0.0, pace * (task.total - task.completed) - (time.monotonic() - since))
            return Text(str(timedelta(seconds=round(left))), style="progress.remaining")

    # What is too long for the terminal is cut in the first and the last column, so that a line stays a line.
    columns = (
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=2)),
        BarColumn(bar_width=12),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[facts]}", markup=False, table_column=Column(no_wrap=True)),
        Left(table_column=Column(no_wrap=True)),
        TextColumn(
            "{task.fields[detail]}",
            style="dim",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=3),
        ),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        yield bar


class Live:
    """A run on a line of the display."""

    def __init__(self, bar: Any, title: str, rounds: int) -> None:
        self.task = bar.add_task(title, total=rounds, facts="", detail="", pace=(None, 0.0))
        self._bar = bar
        self._accuracy, self._begun = "", False

    def round(self, done: int, drawn: str) -> None:
        """Show it, with the speed of late."""
        if not self._begun:
            # A resumed run begins in the middle; without this its first step would count as thousands of rounds.
            self._bar.reset(self.task, completed=done - 1)
            self._begun = True
        speed = self._bar.tasks[self._bar.task_ids.index(self.task)].speed
        pace = (1.0 / speed if speed else None, time.monotonic())
        self._bar.update(self.task, completed=done, detail=drawn, pace=pace, facts=self._facts(speed))

    def evaluated(self, record: Mapping[str, object]) -> None:
        """Show the accuracy."""
        self._accuracy = f"{100 * float(str(record['accuracy'])):.1f} %"
        self._bar.update(self.task, facts=self._facts(None))

    def _facts(self, speed: float | None) -> str:
        return "  ".join(part for part in (self._accuracy, f"{speed:.3g}/s" if speed else "") if part)
