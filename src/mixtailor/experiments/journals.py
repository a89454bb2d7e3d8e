"""The journal of a server, read back as the records of one run."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from mixtailor._files import read_bounded
from mixtailor.experiments.soundness import is_journal_line
from mixtailor.trackers.journal import FILE

__all__ = ["read_journal"]

_LONGEST = 256 << 20  # bytes
_SOURCES = ("", "server/", "evaluate/", "train/")  # whose accuracy counts, the first that is there


def read_journal(folder: Path) -> tuple[dict[str, Any], str, dict[str, Any], list[dict[str, Any]]]:
    """The index of its page, the name of its rule, its configuration, and a record for each accuracy that was logged.

    The index has ``server``: of every worker, in how many rounds it took part, was quarantined, why the last time, and
    was suspected. A last line that was cut off is left out.
    """
    lines = _lines(folder / FILE)
    title = folder.name
    values: dict[int, dict[str, float]] = {}
    rounds: dict[int, dict[str, Any]] = {}
    for line in lines:
        if "title" in line:
            title = str(line["title"])
        elif "values" in line:
            values.setdefault(int(line["round"]), {}).update(line["values"])
        else:
            rounds[int(line["round"])] = line
    accuracies = {number: found for number in sorted(values) if (found := _accuracy(values[number])) is not None}
    records, workers = _records(rounds, accuracies), _workers(rounds)
    last = max([*rounds, *values], default=0)
    n = max([len(line["workers"]) for line in rounds.values()], default=0)
    config = {"n": n, "f": 0, "byzantine": 0, "rounds": last, "seed": 0, "data": "its own data", "attack": "none"}
    server = {
        "rounds": last,
        "skipped": sum(bool(line.get("skipped", True)) for line in rounds.values()),
        "drawn": dict(Counter(str(line["drawn"]) for line in rounds.values() if line.get("drawn")).most_common()),
        "remembers": any(line.get("suspects") is not None for line in rounds.values()),
        "workers": workers,
        "recent": [
            {"round": number, "drawn": line.get("drawn"), "quarantined": line["quarantined"], "absent": line["absent"]}
            for number, line in sorted(rounds.items())[-12:]
        ],
    }
    index = {"name": folder.name, "title": title, "claims": [], "numbers": [], "entries": [], "server": server}
    return index, "server", config, records


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    for number, text in enumerate(read_bounded(path, _LONGEST, within=path.parent).split(b"\n")[:-1], 1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue  # a server that was killed left half a line, and the one after it began a new one
        if not is_journal_line(line):
            raise ValueError(f"Line {number} of {path} is no line of a journal. The file is damaged.")
        found.append(line)
    return found


def _accuracy(values: dict[str, float]) -> float | None:
    for source in _SOURCES:
        for name, value in values.items():
            own = name.startswith(source) and ("/" not in name if not source else True)
            if own and name.endswith(("accuracy", "acc")) and 0.0 <= value <= 1.0:
                return float(value)
    return None


def _records(rounds: dict[int, dict[str, Any]], accuracies: dict[int, float]) -> list[dict[str, Any]]:
    """One for each accuracy, with what happened since the one before."""
    records, before = [], -1
    for number, accuracy in accuracies.items():
        part = [line for k, line in sorted(rounds.items()) if before < k <= number]
        drawn, quarantined = Counter[str](), Counter[str]()
        for line in part:
            drawn.update([line["drawn"]] if line.get("drawn") else [])
            quarantined.update(line["quarantined"])
        records.append(
            {
                "round": number,
                "accuracy": accuracy,
                "drawn": dict(drawn),
                "selected": {},  # of names; the page's table of choices is for numbered workers
                "quarantined": dict(quarantined),
                "byzantine": {},
                "byzantine_weight": None,
                "reputation": {},
                "median_seconds": {},
            }
        )
        before = number
    return records


def _workers(rounds: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    counted = ("rounds", "selected", "quarantined", "absent", "suspected")
    found: dict[str, dict[str, Any]] = {}
    for _, line in sorted(rounds.items()):
        for name in [*line["workers"], *(name for name in line["absent"] if name not in line["workers"])]:
            own = found.setdefault(name, {"worker": name, "reason": "", **dict.fromkeys(counted, 0)})
            own["rounds"] += 1
            own["absent"] += name in line["absent"]
            own["selected"] += name in (line.get("selected") or ())
            own["suspected"] += name in (line.get("suspects") or ())
            if name in line["quarantined"]:
                own["quarantined"] += 1
                own["reason"] = str(line["quarantined"][name])
    return sorted(found.values(), key=lambda own: (-own["quarantined"], -own["suspected"], own["worker"]))
