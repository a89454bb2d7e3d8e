"""Whether what was read from a folder can be shown: a folder may come from somebody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["is_index", "is_journal_line", "shown_config", "shown_records"]

MOST_WORKERS = 1_000_000  # a page has a number for each: more would fill memory from a few bytes
MOST = 1 << 53  # what JSON and JavaScript hold exactly
_COUNTED = ("drawn", "selected", "byzantine")
_FORMER = {"lying": "byzantine"}  # names in records of earlier versions


def shown_config(config: Mapping[str, Any], path: Path | str) -> dict[str, Any]:
    """A configuration with all counts; a ValueError where one is none, or has more workers than a page can show.

    Examples
    --------
    >>> shown_config({"seed": 0, "n": 12}, "experiment.json")
    {'n': 12, 'byzantine': 0, 'seed': 0}
    >>> shown_config({"seed": 0, "n": 10**12}, "experiment.json")
    Traceback (most recent call last):
    ValueError: experiment.json is damaged: a configuration has n = 1000000000000. Run again.
    """
    found = {"n": 0, "byzantine": 0, **config}
    for name, most in (("n", MOST_WORKERS), ("byzantine", MOST_WORKERS), ("rounds", MOST), ("seed", None)):
        value = found.get(name, 0)
        if type(value) is not int or value < 0 or (most is not None and value > most):
            raise ValueError(f"{path} is damaged: a configuration has {name} = {repr(value)[:40]}. Run again.")
    return found


def is_index(index: Mapping[str, Any]) -> bool:
    """Whether what an index says beside its entries is what an experiment writes.

    Examples
    --------
    >>> is_index({"title": "Krum fails", "scale": 1.0}), is_index({"title": ["Krum fails"]})
    (True, False)
    """
    return (
        all(isinstance(index.get(name, ""), str) for name in ("name", "title", "description"))
        and _is_number(index.get("scale", 1.0))
        and _is_names(index.get("left_out", []))
        and isinstance(index.get("versions", {}), dict)
        and all(
            isinstance(found := index.get(name, []), list) and all(isinstance(item, dict) for item in found)
            for name in ("claims", "numbers")
        )
        and "server" not in index  # of a journal alone
    )


def shown_records(records: Sequence[Mapping[str, Any]], path: Path | str) -> list[dict[str, Any]]:
    """The records, each with all counts; a ValueError where a number is none.

    Examples
    --------
    >>> shown_records([{"round": 0, "accuracy": 0.1}], "metrics.jsonl")
    [{'drawn': {}, 'selected': {}, 'byzantine': {}, 'round': 0, 'accuracy': 0.1}]
    >>> shown_records([{"round": 10, "accuracy": "high"}], "metrics.jsonl")
    Traceback (most recent call last):
    ValueError: metrics.jsonl is damaged: record 1 is not one that a run writes. Remove its folder to start again.
    """
    records = [{_FORMER.get(name, name): value for name, value in record.items()} for record in records]
    for number, record in enumerate(records, 1):
        if not _is_record(record):
            raise ValueError(
                f"{path} is damaged: record {number} is not one that a run writes. Remove its folder to start again."
            )
    return [{**{name: {} for name in _COUNTED}, **record} for record in records]


def is_journal_line(line: object) -> bool:
    """Whether this is a line that a `mixtailor.trackers.Journal` writes.

    Examples
    --------
    >>> is_journal_line({"round": 1, "workers": ["ann"], "absent": [], "quarantined": {}})
    True
    >>> is_journal_line({"round": 1, "workers": 5, "absent": [], "quarantined": {}})
    False
    """
    if not isinstance(line, dict):
        return False
    if "title" in line:
        return isinstance(line["title"], str)
    if not _is_count(line.get("round")):
        return False
    if "values" in line:
        return _is_table(line["values"], _is_number)
    return (
        _is_names(line.get("workers"))
        and _is_names(line.get("absent"))
        and _is_table(line.get("quarantined"), lambda reason: isinstance(reason, str))
        and all(line.get(name) is None or _is_names(line[name]) for name in ("selected", "suspects"))
        and isinstance(line.get("drawn", ""), str)
    )


def _is_record(record: Mapping[str, Any]) -> bool:
    weight, accuracy = record.get("byzantine_weight"), record.get("accuracy", -1)
    return (
        _is_count(record.get("round"))
        and _is_number(accuracy)
        and 0 <= accuracy <= 1
        and all(_is_table(record.get(name, {}), _is_count) for name in (*_COUNTED, "quarantined"))
        and all(_is_table(record.get(name, {}), _is_number) for name in ("median_seconds", "rule_seconds"))
        and (weight is None or _is_number(weight))
        and _is_count(record.get("weighed", 0))
    )


def _is_table(value: object, check: Callable[[object], bool]) -> bool:
    return isinstance(value, dict) and all(map(check, value.values()))


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= MOST  # type: ignore[arg-type]  # NaN is not


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST
