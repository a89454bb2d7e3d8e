"""Every rule is many times faster than the fastest public implementation of it."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _own
from benchmarks._data import gradients, spread
from benchmarks._findings import Finding
from benchmarks._harness import Contender, ratio
from benchmarks._measured import Measured
from benchmarks._pipe import TaskError, Worker
from benchmarks._plans import Size
from benchmarks._table import entries

__all__ = ["agreement", "contenders", "findings", "hopeless"]

CLAIM = "against_peers"
HOPELESS = 0.1  # seconds on small rows
KEPT = 2  # of all libraries and forms that have a rule, how many go on to the interleaved run
TOLERANCE = 1e-3  # of the spread of a coordinate: float32 sums in another order


def hopeless(answers: Iterable[Finding]) -> set[str]:
    """Peers that took a tenth of a second and ten times as long as another for the same rule, on small rows."""
    best: dict[str, float] = {}
    known = {each.what: float(each.facts["seconds"]) for each in answers if "seconds" in each.facts}
    for task, seconds in known.items():
        rule = task.partition(" @ ")[0]
        best[rule] = min(seconds, best.get(rule, seconds))
    return {
        task for task, seconds in known.items() if seconds > HOPELESS and seconds > 10 * best[task.partition(" @ ")[0]]
    }


def contenders(worker: Worker, size: Size, without: Collection[str] = ()) -> tuple[list[Contender], dict[str, Any]]:
    """The fastest peers of each rule by a first look, the fastest of our definition among them, and what it saw."""
    told = worker.ask("data", n=size.n, d=size.d, f=size.f)
    looks: dict[str, dict[str, float]] = defaultdict(dict)
    errors: dict[str, str] = {}
    for task in told["tasks"]:
        rule = task.partition(" @ ")[0]
        if task in without:
            continue
        try:
            cold = worker.ask("time", task=task, calls=1)["seconds"][0]
            # A first call starts threads and faults pages in, so that it says nothing unless it is very slow.
            looks[rule][task] = cold if cold > 3.0 else min(worker.ask("time", task=task, calls=2)["seconds"])
        except TaskError as error:
            errors[task] = str(error)
    kept = []
    for seconds in looks.values():
        ranked = sorted(seconds, key=seconds.__getitem__)
        same = [task for task in ranked if task not in told["remarks"]]
        kept += list(dict.fromkeys([*ranked[:KEPT], *same[:1]]))
    seen = {task: 1e3 * seconds for tasks in looks.values() for task, seconds in tasks.items()}
    facts = {"versions": told["versions"], "remarks": told["remarks"], "first_look_ms": seen, "errors": errors}
    return [worker.contender(task, f"peer/{task}") for task in kept], facts


def findings(measured: Measured, remarks: Mapping[str, str]) -> list[Finding]:
    """How many times faster than the fastest peer, within the run."""
    found = []
    for entry in entries(measured, "gradients"):
        prefix = f"peer/{entry.row.peer} @ "
        rivals = [key for key in measured.timings if key.startswith(prefix)]
        if entry.row.peer is None or not rivals:
            continue
        fastest = min(rivals, key=lambda key: measured.timings[key].median)
        value, low, high = ratio(measured.timings[fastest], entry.timing)
        same = [key for key in rivals if key.removeprefix("peer/") not in remarks]
        alike = min(same, key=lambda key: measured.timings[key].median, default=None)
        found.append(
            Finding(
                CLAIM,
                entry.row.name,
                str(measured.size),
                value,
                "x faster",
                entry.row.faster,
                at_least=True,
                low=low,
                high=high,
                note=remarks.get(fastest.removeprefix("peer/"), ""),
                facts={
                    "peer": fastest.removeprefix(prefix),
                    "peer_milliseconds": 1e3 * measured.timings[fastest].median,
                    "milliseconds": 1e3 * entry.timing.median,
                    "peer_alike": None if alike is None else alike.removeprefix(prefix),
                    "faster_alike": None if alike is None else ratio(measured.timings[alike], entry.timing)[0],
                },
            )
        )
    return found


def agreement(worker: Worker, size: Size) -> Iterator[Finding]:
    """How far each peer's answer is from ours, in spreads of a coordinate; a limit where the definition is ours."""
    told = worker.ask("data", n=size.n, d=size.d, f=size.f)
    rows = gradients(size.n, size.d, size.f)
    rules, unit = _own.rules(size.n, size.f), spread(rows)
    with tempfile.TemporaryDirectory() as folder:
        for task in told["tasks"]:
            rule = task.partition(" @ ")[0]
            path = Path(folder) / "answer.npy"
            try:
                seconds = worker.ask("answer", task=task, path=str(path))["seconds"]
            except TaskError as error:
                yield Finding("agreement", task, str(size), float("nan"), "spreads", note=str(error))
                continue
            away = float(np.abs(np.load(path) - rules[rule](rows)).max()) / unit
            remark = told["remarks"].get(task, "")
            yield Finding(
                "agreement",
                task,
                str(size),
                away,
                "spreads",
                None if remark else TOLERANCE,
                note=remark,
                facts={"seconds": seconds},
            )
