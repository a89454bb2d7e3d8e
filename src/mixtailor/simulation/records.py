"""What a run leaves behind: one JSON line per evaluation, and the counts between them."""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from mixtailor._files import check_regular, read_bounded
from mixtailor.rules import Reputation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mixtailor.rules import Aggregation

__all__ = ["LAST", "Laps", "Records", "Tally", "last_trained", "read_records"]

LONGEST = 256 << 20  # bytes that records may have: a million evaluations of a small run

Record = dict[str, Any]

STEPPED_BACK = "stepped back"
LAST = 5  # evaluations that the accuracy of a run is the mean of


def last_trained(records: Sequence[Record], last: int = LAST) -> list[Record]:
    """The last evaluations of a run, at most `last`; the one before the first round, of an untrained model, never.

    Examples
    --------
    >>> [record["round"] for record in last_trained([{"round": 0}, {"round": 10}, {"round": 20}])]
    [10, 20]
    """
    return [record for record in records if record["round"] > 0][-last:]


@dataclass
class Tally:
    """What happened in the rounds since the last evaluation.

    Attributes
    ----------
    drawn : Counter
        How often each rule was applied; of a MixTailor, each of its pool.
    rule_seconds : dict
        How long these took together.
    times : dict
        How long each call took, by rule, without a rule's first call, which may compile.
    selected, quarantined : Counter
        How often each worker was chosen by a rule that chooses, and taken out for a proven fault.
    byzantine : Counter
        How often each worker was Byzantine.
    byzantine_weight : float
        The sum over rounds of the weight that Byzantine rows had in the result, where it is a combination of rows.
    reputation : Reputation
        The account of every worker. Distances that cost a reading are asked for where `rows` are given.
    """

    rounds: int = 0
    losses: float = 0.0
    skipped: int = 0
    weighed: int = 0
    byzantine_weight: float = 0.0
    drawn: Counter[str] = field(default_factory=Counter)
    rule_seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    selected: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    byzantine: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    reputation: Reputation = field(default_factory=Reputation)

    def add(
        self,
        result: Aggregation,
        workers: Sequence[int],
        byzantine: Sequence[int],
        facts: Mapping[str, object],
        rows: Any = None,
    ) -> None:
        """Count one round."""
        self.rounds += 1
        self.reputation.observe(result, rows, workers=workers)
        self.drawn[repr(result.rule)] += 1
        attackers = set(byzantine)
        self.byzantine.update(str(worker) for worker in byzantine)
        self.quarantined.update(str(workers[item.row]) for item in result.quarantined)
        if result.update is None:
            self.skipped += 1
            return
        if result.selected is not None and len(result.selected) < len(workers):
            self.selected.update(str(workers[row]) for row in result.selected)
        if result.weights is not None:
            self.weighed += 1
            self.byzantine_weight += float(sum(result.weights[k] for k, who in enumerate(workers) if who in attackers))
        size = facts.get("epsilon", facts.get("size"))
        if isinstance(size, (int, float)):
            self.sizes[f"{size:.3g}"] += 1

    def stepped_back(self) -> str:
        """Count a round in which the server stepped back; what stands in place of a rule's name."""
        self.rounds += 1
        self.drawn[STEPPED_BACK] += 1
        return STEPPED_BACK

    def timed(self, rule: str, seconds: float, *, first: bool) -> None:
        """Count the time of one call. A first call has no part in the medians: it may compile."""
        self.rule_seconds[rule] += seconds
        if not first:
            self.times[rule].append(seconds)

    def plain(self) -> Record:
        """The counts in types that JSON knows."""
        return {
            "train_loss": _finite(self.losses / self.rounds) if self.rounds else None,
            "skipped": self.skipped,
            "byzantine_weight": _finite(self.byzantine_weight / self.weighed) if self.weighed else None,
            "weighed": self.weighed,
            "drawn": dict(self.drawn),
            "selected": dict(self.selected),
            "quarantined": dict(self.quarantined),
            "byzantine": dict(self.byzantine),
            "sizes": dict(self.sizes),
            "reputation": self.reputation.summary(),
            "seconds": {name: round(spent, 6) for name, spent in self.seconds.items()},
            "rule_seconds": {name: round(spent, 6) for name, spent in self.rule_seconds.items()},
            "median_seconds": {name: round(median(spent), 9) for name, spent in self.times.items()},
        }

    def state(self) -> Record:
        """Everything, for a checkpoint."""
        own = {name: dict(value) if isinstance(value, dict) else value for name, value in vars(self).items()}
        return {**own, "reputation": self.reputation.summary()}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Tally:
        """From what `state` gave."""
        tally = cls()
        for name, value in state.items():
            if name == "reputation":
                tally.reputation = Reputation.restored(value)
            elif isinstance(value, dict):
                getattr(tally, "byzantine" if name == "lying" else name).update(value)  # as earlier versions wrote it
            else:
                setattr(tally, name, value)
        return tally


class Records:
    """A file of JSON lines that can be put back to where a checkpoint was made.

    Parameters
    ----------
    path : Path or None
        The file; None keeps the records in memory alone.
    length : int
        How many bytes of it count. What is behind them was written after the checkpoint: it stays until the run has
        come as far again, so that nothing that was once reported is ever missing, and goes if the run comes to
        something else.

    Examples
    --------
    >>> records = Records(None)
    >>> records.write({"round": 0, "accuracy": 0.1})
    >>> [record["round"] for record in records]
    [0]
    """

    def __init__(self, path: Path | None, length: int = 0) -> None:
        self.path, self.length = path, length
        self._kept: list[Record] = []
        self._ahead: list[bytes] = []
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            check_regular(path)
            with path.open("a+b") as file:
                if file.tell() > LONGEST:
                    raise ValueError(f"{path} has more than the {LONGEST:,} bytes that records may have.")
                if file.tell() < length:
                    raise ValueError(f"{path} is shorter than its checkpoint says. Remove its folder to start again.")
                file.seek(0)
                self._kept = _parsed(file.read(length), path)
                self._ahead = [line for line in file.readlines() if line.endswith(b"\n")]

    def write(self, record: Record) -> None:
        """One line more, on the disk when this returns."""
        self._kept.append(record)
        if self.path is None:
            return
        line = json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        if self._ahead and _alike(self._ahead[0], line):
            self.length += len(self._ahead.pop(0))
            return
        self._ahead.clear()
        with self.path.open("r+b") as file:
            file.truncate(self.length)
            file.seek(self.length)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self.length += len(line)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


def read_records(path: Path, *, within: Path | None = None) -> list[Record]:
    """The records of a file, inside a folder where that is given; a last line that was cut off is left out."""
    return _parsed(read_bounded(path, LONGEST, within=within), path)


def _parsed(content: bytes, path: Path) -> list[Record]:
    kept = []
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise ValueError(
                f"Line {number} of {path} is no record. The file is damaged: remove its folder to start again."
            )
        kept.append(record)
    return kept


def _alike(one: bytes, other: bytes) -> bool:
    """Whether two lines are the same except for the time they took."""
    try:
        return bool(_timeless(json.loads(one)) == _timeless(json.loads(other)))
    except (ValueError, RecursionError):
        return False


def _timeless(record: Any) -> Any:
    if not isinstance(record, dict):
        return record
    return {name: value for name, value in record.items() if not name.endswith("seconds")}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


class Laps:
    """Adds the time between two laps to a tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally, self._last = tally, time.perf_counter()

    def lap(self, name: str) -> float:
        """Add the time since the last lap under a name, and return it."""
        now = time.perf_counter()
        spent, self._last = now - self._last, now
        self._tally.seconds[name] += spent
        return spent
