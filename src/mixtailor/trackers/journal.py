"""A journal: what a server did in each round, in a folder that ``mixtailor watch`` and ``mixtailor report`` show."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixtailor._checks import shown
from mixtailor._files import check_regular

if TYPE_CHECKING:
    import os

    from mixtailor.rules import Aggregation

__all__ = ["FILE", "Journal"]

FILE = "journal.jsonl"
_LONGEST = 200  # characters of a reason or a name: clients choose them


class Journal:
    """Writes the rounds of a server into a folder: a loop of your own, or a strategy of Flower.

    Parameters
    ----------
    folder : path
        It is created. A journal that exists is continued.
    title : str, optional
        Of the page.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from mixtailor import Krum
    >>> folder = tempfile.TemporaryDirectory()
    >>> journal = Journal(folder.name, title="Three hospitals and a clinic")
    >>> result = Krum(f=0).aggregate(np.ones((4, 3)))
    >>> journal.round(1, result, workers=["ann", "bob", "cyn", "dan"])
    >>> journal.log(1, {"accuracy": 0.5})
    >>> len((Path(folder.name) / "journal.jsonl").read_text().splitlines())
    3
    >>> folder.cleanup()

    Notes
    -----
    ``RobustStrategy(rule, tracker=Journal("results/flower"))`` is all that Flower needs. An accuracy is found in the
    numbers that are logged: the first whose name ends with "accuracy", the server's own before the clients'.
    """

    def __init__(self, folder: str | os.PathLike[str], *, title: str | None = None) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._mutex = threading.Lock()
        self._path = self.folder / FILE
        if self._path.exists():
            check_regular(self._path)
            self._end_line()
        self._write({"title": _text(title or self.folder.name)})

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers by name, at a round. What is not finite is left out."""
        kept = {_text(name): float(value) for name, value in values.items() if math.isfinite(value)}
        self._write({"round": int(step), "values": kept})

    def round(
        self,
        round: int,
        result: Aggregation | None,
        *,
        workers: Sequence[object] | None = None,
        quarantined: Mapping[str, str] | None = None,
        absent: Sequence[object] = (),
    ) -> None:
        """What happened in a round.

        Parameters
        ----------
        round : int
            The number of the round.
        result : Aggregation or None
            Of ``rule.aggregate``; None where no rule was applied.
        workers : sequence, optional
            The names of the updates, in order; their places by default.
        quarantined : mapping, optional
            Who was removed, and why; what the result says by default.
        absent : sequence, optional
            Who sent nothing.
        """
        names = [_text(name) for name in (workers if workers is not None else range(result.n if result else 0))]
        told: dict[str, Any] = {"round": int(round), "workers": names, "absent": [_text(name) for name in absent]}
        if result is not None:
            suspects = result.facts.get("suspects")
            told |= {
                "drawn": repr(result.rule),
                "skipped": result.update is None,
                "selected": None if result.selected is None else [names[row] for row in result.selected],
                "suspects": [names[row] for row in suspects] if isinstance(suspects, tuple) else None,
            }
            if quarantined is None:
                quarantined = {names[item.row]: item.reason for item in result.quarantined}
        told["quarantined"] = {_text(name): _text(reason) for name, reason in (quarantined or {}).items()}
        self._write(told)

    def close(self) -> None:
        """Nothing is left to write."""

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n"
        with self._mutex, self._path.open("a", encoding="utf-8") as file:
            file.write(text)

    def _end_line(self) -> None:
        """A line that a killed server left unfinished is ended, so that the next one is whole."""
        with self._path.open("rb+") as file:
            if file.seek(0, 2) and file.seek(-1, 2) is not None and file.read(1) != b"\n":
                file.write(b"\n")


def _text(value: object) -> str:
    text = shown(value)  # the name of a worker must not turn the text around it, nor stop the page that shows it
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
