"""The tables of ``memory.md``, from what `benchmarks.memory` kept in ``results/memory.json``.

A record with ``"form": "before"`` is of the form of the recipe before the present one, and has a dagger.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["alternatives", "draw", "read", "short", "worst_cases"]

RESULTS = Path(__file__).resolve().parent / "results" / "memory.json"
Record = Mapping[str, Any]
OURS = "recommended"
MEMBERS = {"ViewFilter with memory": "2", "ViewFilter(bound=3) with memory": "3"}  # its rules alone, by their bound
# In the order of the table. What is sought stands behind each: points below omniscient, or below the right f.
SETTINGS: tuple[tuple[str, Mapping[str, Any], Mapping[str, str]], ...] = (
    ("f = 2", {"f": 2}, {"worker": "2", "server": "2"}),
    ("f = 4", {"f": 4}, {"worker": "4", "server": "4"}),
    ("five Byzantine, four declared", {"f": 4, "byzantine": 5}, {}),
    ("identities change every round, f = 4", {"f": 4, "identities": 1}, {"worker": "6", "server": "none"}),
    ('f = "auto" (5), four Byzantine', {"f": 5, "byzantine": 4}, {}),
    ("10 of 50 (three seeds)", {"f": 10, "n": 50}, {}),
    ("learning rate x 0.2, f = 4 (three seeds)", {"f": 4, "rate": 0.2}, {}),
    ("learning rate x 3, f = 4 (three seeds)", {"f": 4, "rate": 3.0}, {}),
    ("batches of 8, f = 4 (three seeds)", {"f": 4, "batch": 8}, {}),
    ("Dirichlet(0.5), f = 2", {"f": 2, "partition": "0.5"}, {}),
    ("Dirichlet(0.5), f = 4", {"f": 4, "partition": "0.5"}, {}),
    ("Dirichlet(0.1), f = 2", {"f": 2, "partition": "0.1"}, {}),
    ("one label per worker, f = 2", {"f": 2, "partition": "label"}, {}),
)
DATA = {
    "digits": "digits",
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "segments": "image segments",
    "satellite": "satellite",
    "letterrecognition": "letters",
    "mnist1d": "MNIST-1D",
}
MOMENTA = {"worker": "workers", "server": "server"}


def read() -> list[Record]:
    """What was kept."""
    found: list[Record] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def _found(records: Sequence[Record], data: str, options: Mapping[str, Any], recipes: Iterable[str]) -> Record | None:
    """The record of these options and at least these recipes: of the present form, if there is one, with most seeds."""
    fitting = [
        record
        for record in records
        if record["data"] == data and record["options"] == options and set(recipes) <= record["recipes"].keys()
    ]
    return max(
        fitting, key=lambda record: ("form" not in record, record["seeds"][1] - record["seeds"][0]), default=None
    )


def worst_cases(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """A row for each setting, data set and momentum: the recommended recipe under the worst attack."""
    lines = []
    for name, options, targets in SETTINGS:
        title = name
        for data, shown in DATA.items():
            for momentum, where in MOMENTA.items():
                record = _found(records, data, {**options, "momentum": momentum}, [OURS])
                if record is None:
                    continue
                ours = record["recipes"][OURS]
                target = targets.get(momentum, "")
                if options.get("byzantine") == 5:
                    target = _excess(records, data, momentum, record)
                below = f"{ours['below']:.1f} ± {ours['interval']:.1f}"
                numbers = [f"{record['omniscient']:.1f}", f"{ours['accuracy']:.1f}", below]
                dagger = " †" if record.get("form") == "before" else ""
                lines.append([title, shown, where + dagger, *numbers, ours["attack"], target])
                title = ""
                shown = ""
    header = ["Setting", "Data", "Momentum", "omniscient", "recommended", "below", "worst attack", "Target"]
    return header, lines


def short(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Accuracies on CIFAR-10 at f = 4 in the worst case: omniscient, the recipe, and rules without a memory."""
    names = {OURS: "`mt.recommended(f=4)`", "CAF": "CAF", "default_pool": "`default_pool(f=4)`", "comed": "comed"}
    found = [_found(records, "cifar10", {"f": 4, "momentum": momentum}, names) for momentum in MOMENTA]
    there = [record for record in found if record is not None]
    lines = [["omniscient", *(f"{record['omniscient']:.1f}" for record in there)]]
    lines += [
        [shown, *(f"{record['recipes'][name]['accuracy']:.1f}" for record in there)] for name, shown in names.items()
    ]
    return ["", *(f"momentum at the {where}" for where in MOMENTA.values())], lines


def _excess(records: Sequence[Record], data: str, momentum: str, more: Record) -> str:
    """How much is lost where one Byzantine worker more than declared is there."""
    right = _found(records, data, {"f": 4, "momentum": momentum}, [OURS])
    if right is None or ("form" in right) != ("form" in more):
        return "6 below the right f"
    return f"6 below the right f; {more['recipes'][OURS]['below'] - right['recipes'][OURS]['below']:.1f}"


def draw(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """The recipe beside each of its two rules alone, with the same memory."""
    lines = []
    for data, shown in DATA.items():
        for momentum, where in MOMENTA.items():
            record = _found(records, data, {"f": 4, "momentum": momentum}, [OURS, *MEMBERS])
            if record is None:
                continue
            found = record["recipes"]
            best = max(MEMBERS, key=lambda name: found[name]["accuracy"])
            above, half = found[best]["above"]
            seeds = f"{record['seeds'][0]} to {record['seeds'][1]}"
            accuracies = [f"{found[name]['accuracy']:.1f}" for name in (OURS, *MEMBERS)]
            kept = "yes" if above - half > -0.5 else "no"
            lines.append([shown, where, seeds, *accuracies, f"{above:.1f} ± {half:.1f}", kept])
    alone = [f"bound {bound} alone" for bound in MEMBERS.values()]
    return ["Data", "Momentum", "seeds", "recommended", *alone, "above the better", "kept"], lines


def alternatives(
    records: Sequence[Record], settings: Sequence[str] = ("Dirichlet(0.1), f = 2", "one label per worker, f = 2")
) -> tuple[list[str], list[list[str]]]:
    """Every recipe that was measured on digits in these settings: points below omniscient in the worst case."""
    columns = [
        (f"{name}, {where}", _found(records, "digits", {**options, "momentum": momentum}, [OURS, "CAF"]))
        for name, options, _ in SETTINGS
        if name in settings
        for momentum, where in MOMENTA.items()
    ]
    there = [(title, record) for title, record in columns if record is not None]
    names = list(dict.fromkeys(name for _, record in there for name in record["recipes"]))
    lines = [[name, *(_below(record["recipes"].get(name)) for _, record in there)] for name in names]
    return ["", *(title for title, _ in there)], lines


def _below(found: Mapping[str, Any] | None) -> str:
    return "" if found is None else f"{found['below']:.1f} ± {found['interval']:.1f}"
