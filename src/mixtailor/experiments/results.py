"""What finished runs came to, read from their files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from mixtailor._files import read_bounded
from mixtailor.experiments.journals import read_journal
from mixtailor.experiments.soundness import is_index, shown_config, shown_records
from mixtailor.simulation.description import FILE as DESCRIPTION
from mixtailor.simulation.frames import read_frames
from mixtailor.simulation.records import LAST, last_trained, read_records
from mixtailor.trackers.journal import FILE as JOURNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["LAST", "Result", "Results", "run_folders"]

NOT_RUN = "not run yet"
INDEX, ERROR = 64 << 20, 1 << 20  # bytes that an index may have (10,000 runs take 20 MB), and what stopped a run


@dataclass(frozen=True)
class Result:
    """One run: where it belongs, how it was configured, and its records.

    Attributes
    ----------
    panel, rule, attack, setting : str
        As in the experiment.
    hash : str
        The name of the run's folder, made from its settings.
    config : dict
        The settings of the run.
    records : list of dict
        Those made so far.
    complete : bool
        Whether the run came to its end.
    frames : list of dict
        The rounds that were recorded for the player; see `mixtailor.simulation.frames`.
    """

    panel: str
    rule: str
    attack: str
    setting: str
    hash: str
    config: dict[str, Any] = field(repr=False)
    records: list[dict[str, Any]] = field(repr=False)
    complete: bool
    frames: list[dict[str, Any]] = field(default_factory=list, repr=False)

    @property
    def seed(self) -> int:
        """Of the run."""
        return int(self.config["seed"])

    def accuracy(self, last: int = LAST) -> float:
        """The mean of the last evaluations after training began, in percent."""
        return 100.0 * fmean(record["accuracy"] for record in last_trained(self.records, last))

    def averaged(self, last: int = LAST) -> int:
        """How many evaluations the accuracy is the mean of: fewer than `last` where a run has no more."""
        return len(last_trained(self.records, last))

    def fluctuation(self, last: int = 20) -> float:
        """The standard deviation of the last evaluations, in points."""
        return 100.0 * pstdev([float(record["accuracy"]) for record in last_trained(self.records, last)])

    def beginning(self, share: float = 0.1) -> float | None:
        """The mean accuracy over the first tenth of the rounds, the start apart, in percent."""
        early = [record["accuracy"] for record in self.records if 0 < record["round"] <= share * self.config["rounds"]]
        return 100.0 * fmean(early) if early else None

    @property
    def rounds(self) -> int:
        """How long the run is."""
        last = self.records[-1]["round"] if self.records else 0
        return int(self.config.get("rounds", last))

    def until(self, rounds: int) -> Result | None:
        """The run as it stood after so many rounds: what a shorter run of the same configuration is.

        None where a schedule of the learning rate, or an attack's start, depends on the number of rounds.
        """
        if rounds >= self.rounds:
            return self
        rate, attack = self.config.get("rate", {}), self.config.get("attack", {})
        if rate.get("name", "constant") != "constant" or attack.get("name") == "schedule":
            return None
        kept = [record for record in self.records if record["round"] <= rounds]
        return replace(self, config={**self.config, "rounds": rounds}, records=kept) if last_trained(kept) else None

    def microseconds(self) -> float | None:
        """The time of one aggregation: the median of each rule drawn, weighted by how often it was; no first calls.

        None where no rule was called twice.
        """
        times: dict[str, list[tuple[float, int]]] = {}
        for record in self.records:
            for rule, seconds in _medians(record).items():
                times.setdefault(rule, []).append((seconds, record["drawn"].get(rule, 0)))
        calls = {rule: sum(count for _, count in found) for rule, found in times.items()}
        if not sum(calls.values()):
            return None
        spent = sum(calls[rule] * _weighted_median(found) for rule, found in times.items() if calls[rule])
        return 1e6 * spent / sum(calls.values())


@dataclass(frozen=True)
class Results:
    """All runs of an experiment that have left records and did not fail.

    Attributes
    ----------
    index : dict
        What ``experiment.json`` says.
    runs : list of Result
        The runs that have records, complete or not.
    missing : list of dict
        Entries without records, or that failed, and what stopped them.
    """

    index: dict[str, Any] = field(repr=False)
    runs: list[Result]
    missing: list[dict[str, Any]]

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Results:
        """From the folder of an experiment, which holds its ``experiment.json``, of a single `Simulation`, or of a
        server that keeps a `mixtailor.trackers.Journal`.
        """
        where = Path(folder)
        if not (where / "experiment.json").exists() and (where / JOURNAL).exists():
            index, rule, config, records = read_journal(where)
            known = bool(last_trained(records))
            run = Result(index["title"], rule, "none", "", "", config, records, complete=False)
            return cls(index, [run] if known else [], [])
        if not (where / "experiment.json").exists() and (where / "metrics.jsonl").exists():
            return _single(where)
        index = _index(where)
        runs, missing, inside = [], [], where.parent / "runs"
        for entry, home in zip(index["entries"], run_folders(where), strict=True):
            metrics = home / "metrics.jsonl"
            records = read_records(metrics, within=inside) if os.path.lexists(metrics) else []
            records = shown_records(records, metrics)
            error, complete = home / "error.txt", (home / "summary.json").exists()
            if not last_trained(records) or (os.path.lexists(error) and not complete):
                why = _text(error, inside) if os.path.lexists(error) else NOT_RUN
                missing.append({**entry, "error": why})
                continue
            placed = {key: entry[key] for key in ("panel", "rule", "attack", "setting", "hash")}
            placed["config"] = {"rounds": records[-1]["round"], **entry["config"]}
            frames = read_frames(home, within=inside)
            runs.append(Result(**placed, records=records, complete=complete, frames=frames))
        return cls(index, runs, missing)

    def failed(self) -> list[dict[str, Any]]:
        """Entries whose run was stopped by an error."""
        return [entry for entry in self.missing if entry["error"] != NOT_RUN]

    def panels(self) -> list[str]:
        """The titles of the panels, in order."""
        return _unique(run.panel for run in self.runs)

    def rules(self) -> list[str]:
        """The names of the rules, in order."""
        return _unique(run.rule for run in self.runs)

    def chosen(self, **wanted: str) -> list[Result]:
        """The runs whose panel, rule, attack or setting is as wanted."""
        return [run for run in self.runs if all(getattr(run, key) == value for key, value in wanted.items())]

    def mean(self, measure: Callable[[Result], float | None], **wanted: str) -> float | None:
        """A number of the chosen runs, in the mean; None where there are none."""
        found = [value for value in map(measure, self.chosen(**wanted)) if value is not None]
        return fmean(found) if found else None

    def seeds(self) -> list[int]:
        """Of all runs."""
        return sorted({run.seed for run in self.runs})


def _single(folder: Path) -> Results:
    """The results of one run, from the files that a `Simulation` with a folder leaves."""
    try:
        told = json.loads(read_bounded(folder / DESCRIPTION, INDEX, within=folder).decode("utf-8"))
        config, rule, attack = dict(told["config"]), str(told["rule"]), str(told["attack"])
        rounds = config["rounds"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(
            f"{folder} has the records of a run and no {DESCRIPTION}, which says what the run is: it was made by an "
            "older version. Start the simulation again with this folder: a complete run is not repeated."
        ) from None
    config = shown_config(config, folder / DESCRIPTION)
    records = shown_records(read_records(folder / "metrics.jsonl", within=folder), folder / "metrics.jsonl")
    title = f"{rule} under {attack}" if attack != "none" else f"{rule} without an attack"
    index = {"name": folder.name, "title": title, "claims": [], "numbers": [], "entries": []}
    if not last_trained(records):
        entry = {"panel": title, "rule": rule, "attack": attack, "setting": "", "hash": "", "config": config}
        return Results(index, [], [{**entry, "error": NOT_RUN}])
    complete = records[-1]["round"] == rounds
    frames = read_frames(folder, within=folder)
    return Results(index, [Result(title, rule, attack, "", "", config, records, complete, frames)], [])


def run_folders(folder: Path) -> list[Path]:
    """Where the runs of an experiment leave their files, entry by entry."""
    return [folder.parent / "runs" / entry["hash"] for entry in _index(folder)["entries"]]


def _text(path: Path, within: Path) -> str:
    return read_bounded(path, ERROR, within=within).decode("utf-8", errors="replace").strip()


def _index(folder: Path) -> dict[str, Any]:
    path = folder / "experiment.json"
    if not os.path.lexists(path):
        raise ValueError(
            f"There is no experiment in {folder}: no experiment.json, no metrics.jsonl of a single run, and no "
            "journal.jsonl of a server. Give the folder of one that was run."
        )
    data = read_bounded(path, INDEX, within=folder)
    try:
        index = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        index = None
    entries = index.get("entries") if isinstance(index, dict) else None
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries) or not is_index(index):
        raise ValueError(f"{path} is damaged: it is not the index of an experiment. Run the experiment again.")
    entries = [{**entry, "config": shown_config(entry["config"], path)} for entry in entries]
    return {"title": folder.name, "claims": [], "numbers": [], **index, "entries": entries}


def _is_entry(entry: object) -> bool:
    """Refuse what is not a hash: it becomes the name of a folder."""
    if not isinstance(entry, dict) or not {"panel", "rule", "attack", "setting", "hash", "config"} <= set(entry):
        return False
    name, config = entry["hash"], entry["config"]
    fits = all(isinstance(entry[key], str) for key in ("panel", "rule", "attack", "setting", "hash"))
    fits = fits and name.isalnum() and len(name) <= 64
    return fits and isinstance(config, dict) and type(config.get("seed")) is int


def _medians(record: dict[str, Any]) -> dict[str, float]:
    """The median time of each rule; records of the first versions have sums alone, whose first ones compiled."""
    if "median_seconds" in record:
        return dict(record["median_seconds"])
    drawn = record["drawn"]
    return {rule: spent / drawn[rule] for rule, spent in record["rule_seconds"].items() if drawn.get(rule)}


def _weighted_median(found: list[tuple[float, int]]) -> float:
    """Of values and their counts, the lower median."""
    half, passed = sum(count for _, count in found) / 2, 0
    for value, count in sorted(found):
        passed += count
        if passed >= half:
            return value
    return found[-1][0]


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
