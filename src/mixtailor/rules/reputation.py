"""`Reputation`: who was selected, who was quarantined, and how far each was from the result, over many rounds."""

import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, Protocol, Self

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Floats
from mixtailor.intake import receive
from mixtailor.kernels.selection import median
from mixtailor.rules.aggregation import Aggregation
from mixtailor.updates import Faulty, Updates

__all__ = ["Observer", "Reputation", "Standing"]

# One row at 1e38 would otherwise decide a mean for ever; `farthest` still says how far it was.
FAR = 1000.0

HEADINGS = ("worker", "rounds", "selected", "expected", "quarantined", "distance", "farthest")


class Observer(Protocol):
    """A callback for every aggregation: a `Reputation`, or anything else with this method."""

    def observe(
        self, aggregation: Aggregation, updates: Any = None, *, workers: Sequence[object] | None = None
    ) -> None: ...


@dataclass
class Standing:
    """What is known of one worker.

    Attributes
    ----------
    rounds : int
        In how many it took part.
    selected, expected : int, float
        How often it was selected by rules that choose, and how often it would have been by chance.
    quarantined : int
        How often it was removed for a proven fault.
    measured : int
        In how many rounds its distance from the result is known.
    total, farthest : float
        The sum and the largest of these distances, in units of the median distance of the round.
    """

    rounds: int = 0
    selected: int = 0
    expected: float = 0.0
    quarantined: int = 0
    measured: int = 0
    total: float = 0.0
    farthest: float = 0.0

    @property
    def distance(self) -> float | None:
        """The mean distance from the result: 1 is that of the round's median row, and 1,000 the most that counts."""
        return self.total / self.measured if self.measured else None


class Reputation:
    r"""An account of every worker over the rounds, for people to look at. No rule reads it.

    The distance of worker i in a round is :math:`\lVert x_i - U \rVert / \mathrm{median}_j \lVert x_j - U \rVert`, so
    that rounds with large and with small updates count equally.

    Examples
    --------
    >>> from mixtailor import Krum, Reputation
    >>> reputation = Reputation()
    >>> updates = np.array([[1.0, 2.0], [1.1, 2.0], [0.9, 2.1], [1.0, 1.9], [1.2, 2.2], [7.0, 0.0], [np.nan, 0.0]])
    >>> for _ in range(3):
    ...     reputation.observe(Krum(f=2).aggregate(updates, workers=["ann", "bob", "cyn", "dan", "eve", "fay", "gus"]))
    >>> print(reputation)
    worker  rounds  selected  expected  quarantined  distance  farthest
    gus          3         0       0.4            3         -         -
    fay          3         0       0.4            0     52.39      52.4
    eve          3         0       0.4            0      2.34      2.34
    cyn          3         0       0.4            0      1.17      1.17
    bob          3         0       0.4            0      0.83     0.828
    dan          3         0       0.4            0      0.83     0.828
    ann          3         3       0.4            0      0.00         0

    Notes
    -----
    Distances that the rule's own queries give are free, and `Aggregation.distances` has them: those of rules that
    return updates, or combinations of updates whose distances they queried. For the others, give the updates, and
    they are read once more. With l_p rules the distances are in that norm.

    A worker that is far need not be Byzantine, and a Byzantine worker need not be far: see `docs/security.md`.
    """

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}
        self._mutex = threading.Lock()

    def observe(
        self, aggregation: Aggregation, updates: Any = None, *, workers: Sequence[object] | None = None
    ) -> None:
        """Count one round.

        Parameters
        ----------
        aggregation : Aggregation
            What happened.
        updates : array, tensor, or sequence, optional
            What was aggregated. Asks for distances, by one more reading where they are not known.
        workers : sequence, optional
            The workers' names; by default those that the aggregation has, or the numbers of the updates.
        """
        names = [str(name) for name in (aggregation.workers if workers is None else workers) or range(aggregation.n)]
        if len(names) != aggregation.n:
            refuse(f"workers= needs one name for each of the {aggregation.n} updates and got {len(names)}.")
        gone = {item.row for item in aggregation.quarantined}
        distances = aggregation.distances
        if distances is None and updates is not None and aggregation.update is not None:
            distances = distances_from_result(aggregation, updates)
        chosen = aggregation.selected if aggregation.update is not None else None
        if chosen is not None and len(chosen) == aggregation.n - len(gone):
            chosen = None  # all of them are no choice
        with self._mutex:
            for row, name in enumerate(names):
                standing = self._standings.setdefault(name, Standing())
                standing.rounds += 1
                standing.quarantined += row in gone
                if chosen is not None:
                    standing.selected += row in chosen
                    standing.expected += len(chosen) / aggregation.n
            if distances is not None:
                self._measure(names, distances)

    def _measure(self, names: Sequence[str], distances: Floats) -> None:
        known = np.nonzero(np.isfinite(distances))[0]
        if not len(known):
            return
        unit = median(distances[known]) or float(distances[known].max())
        with np.errstate(over="ignore"):
            # Where all updates are equal, each is at the result. JSON has no infinity, so the largest number stands in.
            lengths = np.nan_to_num(distances[known] / unit) if unit else np.zeros(len(known))
        for row, away in zip(known.tolist(), lengths.tolist(), strict=True):
            standing = self._standings[names[row]]
            standing.measured += 1
            standing.total += min(away, FAR)
            standing.farthest = max(standing.farthest, away)

    def __getitem__(self, worker: object) -> Standing:
        return self._standings[str(worker)]

    def __iter__(self) -> Iterator[str]:
        """The workers' names: most often quarantined first, then the farthest from the results."""
        return iter(sorted(self._standings, key=lambda name: _order(self._standings[name])))

    def __len__(self) -> int:
        return len(self._standings)

    def add(self, other: "Reputation") -> None:
        """Count what another one has counted, too."""
        theirs = other.summary()
        with self._mutex:
            for name, found in theirs.items():
                own, more = self._standings.setdefault(name, Standing()), Standing(*found)
                farthest = max(own.farthest, more.farthest)
                for item in fields(Standing):
                    setattr(own, item.name, getattr(own, item.name) + getattr(more, item.name))
                own.farthest = farthest

    def summary(self) -> dict[str, list[Any]]:
        """Each worker's counts, in types that JSON knows: rounds, selected, expected, quarantined, measured, total,
        farthest."""
        with self._mutex:
            return {name: list(astuple(standing)) for name, standing in self._standings.items()}

    @classmethod
    def restored(cls, summary: Mapping[str, Sequence[Any]]) -> Self:
        """From what `summary` gave."""
        made = cls()
        for name, counts in summary.items():
            if len(counts) != len(fields(Standing)) or not all(_is_count(count) for count in counts):
                refuse(f"A standing needs {len(fields(Standing))} numbers that are not negative, unlike {name!r}.")
            made._standings[str(name)] = Standing(*counts)
        return made

    def to_json(self) -> str:
        """The summary as JSON."""
        return json.dumps(self.summary())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """From what `to_json` gave."""
        try:
            summary = json.loads(text)
        except (ValueError, RecursionError):
            summary = None
        if not isinstance(summary, dict) or not all(isinstance(counts, list) for counts in summary.values()):
            refuse("A reputation needs a JSON object of lists of numbers, by worker, and got something else.")
        return cls.restored(summary)

    def table(self) -> list[tuple[str, ...]]:
        """A line for each worker, under `HEADINGS`."""
        return [(_printable(name), *_cells(self._standings[name])) for name in self]

    def __str__(self) -> str:
        lines = [HEADINGS, *self.table()]
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
        shown = (
            "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
            for line in lines
        )
        return "\n".join(shown)

    def __repr__(self) -> str:
        return f"<Reputation of {len(self)} workers>"


def distances_from_result(aggregation: Aggregation, updates: Any) -> Floats:
    """How far each row is from the result, by one reading; NaN for rows that are not finite or were removed."""
    arrival = receive(updates)
    result = arrival.flatten(aggregation.update)
    gone = {item.row for item in aggregation.quarantined}
    found = np.full(aggregation.n, np.nan)
    while True:
        left = [place for place, row in enumerate(arrival.received) if row not in gone]
        if not left:
            return found
        rows = Updates.arrived(arrival).only(left)
        try:
            found[list(rows.received)] = rows.distances_to(rows.given(result))
        except Faulty as faulty:  # of a row that the rule did not read
            gone.update(faulty.rows)
            continue
        return found


def _order(standing: Standing) -> tuple[float, float]:
    return -standing.quarantined / max(1, standing.rounds), -(standing.distance or 0.0)


def _cells(standing: Standing) -> tuple[str, ...]:
    far = ("-", "-") if standing.distance is None else (f"{standing.distance:.2f}", f"{standing.farthest:.3g}")
    return (
        str(standing.rounds),
        str(standing.selected),
        f"{standing.expected:.1f}",
        str(standing.quarantined),
        *far,
    )


def _printable(name: str) -> str:
    # A name may come from the worker itself, and a terminal obeys control characters.
    return "".join(character if character.isprintable() else "?" for character in name)


def _is_count(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
