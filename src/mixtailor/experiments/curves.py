"""Accuracy curves of complete runs in one small file for each experiment: enough to redraw and to judge, no weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixtailor._files import atomic_write, read_bounded
from mixtailor.experiments.errors import ConfigError
from mixtailor.experiments.results import NOT_RUN, Result, Results

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from mixtailor.experiments.experiment import Experiment

__all__ = ["keep_curves", "kept_curves", "thinned"]

FORMAT = 1
MOST_POINTS = 200
_LONGEST = 256 << 20  # bytes of a file
LAST = 20  # evaluations at the end that are always kept: accuracy and fluctuation are computed from them
_WHERE = ("panel", "rule", "attack", "setting")
_Run = dict[str, Any]


def thinned(curve: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most 200 points of a curve, the first and the last 20 among them.

    Examples
    --------
    >>> points = thinned([(k, 0.5) for k in range(1_001)])
    >>> len(points), points[0], points[-20:] == [(k, 0.5) for k in range(981, 1_001)]
    (184, (0, 0.5), True)
    """
    early, late = list(curve[:-LAST]), list(curve[-LAST:])
    step = -(-len(early) // (MOST_POINTS - LAST))
    return early[:: max(1, step)] + late


def keep_curves(
    results: Results, folder: str | os.PathLike[str], name: str | None = None, *, unfinished: bool = False
) -> Path:
    """Add the complete runs of an experiment to its file of curves, and return the file.

    Runs that are in the file already stay, unless the same run was made with at least as many rounds.

    Parameters
    ----------
    results : Results
        As read from the folder of the experiment.
    folder : path
        Where the files of curves are.
    name : str, optional
        The name of the file, without its ending; that of the experiment by default.
    unfinished : bool
        Keep runs that were stopped as well, each as the shorter run that it is; not where a schedule depends on the
        number of rounds.
    """
    path = Path(folder) / f"{name or results.index['name']}.json"
    runs = {_key(run): run for run in (_read(path) if path.exists() else [])}
    ended = [
        run if run.complete else run.until(int(run.records[-1]["round"])) if unfinished else None
        for run in results.runs
    ]
    for result in filter(None, ended):
        if (fresh := _plain(result))["rounds"] >= runs.get(_key(fresh), {"rounds": 0})["rounds"]:
            runs[_key(fresh)] = fresh
    lines = ",\n".join(json.dumps(run, ensure_ascii=False) for run in sorted(runs.values(), key=_order(results)))
    with atomic_write(path) as file:
        file.write(f'{{"format": {FORMAT}, "runs": [\n{lines}\n]}}\n'.encode())
    return path


def kept_curves(experiment: Experiment, folder: str | os.PathLike[str]) -> Results:
    """The results of an experiment from its file of curves.

    A run that the file does not have is looked for in the others of the folder: experiments share runs. Entries that
    are in none are missing. Claims and numbers are those of the experiment today, not those of the day on which the
    runs were made.
    """
    path = Path(folder) / f"{experiment.name}.json"
    runs = _read(path) if path.exists() else []
    entries = experiment.entries()
    results = []
    known = {_key(run): run for run in runs}
    wanted = {(entry.panel, entry.rule, entry.attack, entry.setting, entry.config.seed): entry for entry in entries}
    everything = [run for other in sorted(Path(folder).glob("*.json")) for run in _read_if_curves(other)]
    shared = {run["hash"]: run for run in sorted(everything, key=lambda run: run["rounds"])}  # the longest of each
    for key, entry in wanted.items():
        if (found := shared.get(entry.config.hash)) is not None and known.get(key, _NO_RUN)["rounds"] < found["rounds"]:
            known[key] = {**found, **{name: getattr(entry, name) for name in _WHERE}}
    for key, entry in wanted.items():
        if key not in known:
            continue
        run = known[key]
        config = {**entry.config.model_dump(mode="json"), "rounds": run["rounds"], "model": run["model"]}
        records = [{"round": round, "accuracy": accuracy / 100.0, **_NOTHING} for round, accuracy in run["curve"]]
        if run["microseconds"]:
            records[-1] |= {"drawn": {"all": 1}, "median_seconds": {"all": 1e-6 * run["microseconds"]}}
        where = {name: run[name] for name in (*_WHERE, "hash")}
        results.append(Result(**where, config=config, records=records, complete=True))
    missing = [
        {**{name: getattr(entry, name) for name in _WHERE},
         "hash": entry.config.hash, "config": entry.config.model_dump(mode="json"), "error": NOT_RUN}
        for key, entry in wanted.items() if key not in known
    ]  # fmt: skip
    index = {
        "name": experiment.name,
        "title": experiment.title,
        "description": experiment.description,
        "panels": list(dict.fromkeys(entry.panel for entry in entries)),
        "claims": [claim.model_dump(mode="json") for claim in experiment.claims],
        "numbers": [number.model_dump(mode="json") for number in experiment.numbers],
        "entries": [],
    }
    return Results(index, results, missing)


_NO_RUN: Mapping[str, int] = {"rounds": 0}
_NOTHING: Mapping[str, Any] = {"drawn": {}, "median_seconds": {}, "selected": {}, "byzantine": {}}


def _plain(result: Result) -> _Run:
    curve = [(int(record["round"]), round(100.0 * record["accuracy"], 2)) for record in result.records]
    return {
        **{name: getattr(result, name) for name in _WHERE},
        "seed": result.seed,
        "hash": result.hash,
        "rounds": int(result.config["rounds"]),
        "model": result.config["model"],
        "microseconds": round(result.microseconds() or 0.0, 1),
        "curve": thinned(curve),
    }


def _key(run: Mapping[str, Any]) -> tuple[str, str, str, str, int]:
    return run["panel"], run["rule"], run["attack"], run["setting"], run["seed"]


def _order(results: Results) -> Any:
    places = {tuple(entry[name] for name in _WHERE): place for place, entry in enumerate(results.index["entries"])}

    def place(run: Mapping[str, Any]) -> tuple[int, tuple[str, str, str, str, int]]:
        return places.get(tuple(run[name] for name in _WHERE), len(places)), _key(run)

    return place


def _read_if_curves(path: Path) -> list[_Run]:
    try:
        return _read(path)
    except ConfigError:  # somebody else's file
        return []


def _read(path: Path) -> list[_Run]:
    data = read_bounded(path, _LONGEST)
    try:
        table = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        table = None
    needed = {*_WHERE, "seed", "hash", "rounds", "model", "microseconds", "curve"}
    runs = table.get("runs") if isinstance(table, dict) and table.get("format") == FORMAT else None
    if not isinstance(runs, list) or not all(isinstance(run, dict) and needed <= set(run) for run in runs):
        raise ConfigError(f"{path} is not a file of curves, or is damaged. Make it again with --keep.")
    return runs
