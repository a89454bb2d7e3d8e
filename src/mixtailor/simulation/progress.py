"""How far a run is, for somebody who watches; silence for everybody else."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Progress", "Silent", "watched"]


class Progress(Protocol):
    """What a simulation tells of its way."""

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
def watched(rounds: int, *, title: str = "training", done: int = 0) -> Iterator[Progress]:
    """A live line on stderr where that is a terminal: rounds, accuracy, rule, rounds per second, time left.

    Examples
    --------
    >>> with watched(10) as progress:
    ...     progress.round(1, "Comed()")
    """
    if not sys.stderr.isatty():
        yield Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[accuracy]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[drawn]}", markup=True),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=rounds, completed=done, accuracy="", rate="", drawn="")
        yield _Live(bar, task)


class _Live:
    def __init__(self, bar: object, task: object) -> None:
        self._bar, self._task = bar, task

    def round(self, done: int, drawn: str) -> None:
        bar, task = self._bar, self._task
        speed = bar.tasks[task].speed  # type: ignore[attr-defined]  # rich's, which loads only here
        rate = "" if speed is None else f"{speed:.0f} rounds/s"
        bar.update(task, completed=done, rate=rate, drawn=drawn.replace("[", r"\["))  # type: ignore[attr-defined]

    def evaluated(self, record: Mapping[str, object]) -> None:
        self._bar.update(self._task, accuracy=f"{100 * float(str(record['accuracy'])):.1f} %")  # type: ignore[attr-defined]
