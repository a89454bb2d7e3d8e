"""A folder of results that somebody else made: a sentence for each file that no run of ours wrote, and no page."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic")

from mixtailor.experiments.results import Results
from mixtailor.experiments.soundness import shown_records
from mixtailor.report.figures import draw_results
from mixtailor.report.looks import plain_rule
from mixtailor.report.page import rendered
from mixtailor.simulation.records import Tally

CONFIG = {"rounds": 10, "seed": 0, "n": 5, "f": 1, "byzantine": 1, "data": "digits", "model": "mlp"}
RECORD = {
    "round": 10, "accuracy": 0.5, "drawn": {"Krum(f=1)": 10}, "selected": {"0": 10}, "byzantine": {}, "quarantined": {},
    "median_seconds": {}, "byzantine_weight": None, "reputation": {},
}  # fmt: skip
LINE = {"round": 1, "workers": ["ann", "bob"], "absent": [], "drawn": "Krum", "selected": ["ann"], "quarantined": {}}


def single(folder: Path, record: Mapping[str, Any] = {}, **told: Any) -> Path:
    (folder / "metrics.jsonl").write_text(json.dumps({**RECORD, **record}) + "\n")
    described = {"config": CONFIG, "rule": "Krum", "attack": "none", **told}
    (folder / "simulation.json").write_text(json.dumps(described))
    return folder


def experiment(folder: Path, index: Mapping[str, Any] = {}, **entry: Any) -> Path:
    own = {"panel": "p", "rule": "krum", "attack": "a", "setting": "", "hash": "aaaa", "config": CONFIG, **entry}
    (folder / "x").mkdir()
    (folder / "x" / "experiment.json").write_text(json.dumps({"title": "t", "entries": [own], **index}))
    (folder / "runs" / "aaaa").mkdir(parents=True)
    (folder / "runs" / "aaaa" / "metrics.jsonl").write_text(json.dumps(RECORD) + "\n")
    return folder / "x"


def journal(folder: Path, *lines: Mapping[str, Any]) -> Path:
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_records_of_earlier_versions_are_read() -> None:
    """They and their checkpoints name the rounds of Byzantine workers "lying"."""
    (record,) = shown_records([{"round": 10, "accuracy": 0.5, "lying": {"3": 10}}], "metrics.jsonl")
    assert record["byzantine"] == {"3": 10} and "lying" not in record
    assert Tally.restored({"rounds": 4, "lying": {"3": 4}}).plain()["byzantine"] == {"3": 4}


def test_sound_folders_are_shown(tmp_path: Path) -> None:
    for name in ("single", "experiment", "journal"):
        (tmp_path / name).mkdir()
    assert "Krum" in rendered(Results.load(single(tmp_path / "single")))
    assert "krum" in rendered(Results.load(experiment(tmp_path / "experiment")))
    lines = [{"title": "hospitals"}, LINE, {"round": 1, "values": {"accuracy": 0.5, "loss": 3}}]
    assert "hospitals" in rendered(Results.load(journal(tmp_path / "journal", *lines)))


RECORDS: dict[str, dict[str, Any]] = {
    "no round": {"round": None},
    "a round in words": {"round": "ten"},
    "an accuracy in words": {"accuracy": "high"},
    "an accuracy that is none": {"accuracy": float("nan")},
    "an accuracy beyond all": {"accuracy": 1e308},
    "draws in a list": {"drawn": [1]},
    "draws in words": {"drawn": {"Krum": "often"}},
    "choices in a list": {"selected": [1]},
    "Byzantine workers in words": {"byzantine": {"0": "x"}},
    "times in words": {"median_seconds": {"Krum": "long"}},
    "a weight in words": {"byzantine_weight": "heavy"},
}


@pytest.mark.parametrize("what", RECORDS)
def test_a_record_that_no_run_writes(what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"metrics\.jsonl is damaged: record 1 is not one that a run writes"):
        rendered(Results.load(single(tmp_path, RECORDS[what])))


@pytest.mark.parametrize("n", [10**12, -1, "12", 5.0, True])
def test_a_number_of_workers_that_cannot_be(n: object, tmp_path: Path) -> None:
    """The page has a number for each worker: 13 digits filled all memory."""
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    with pytest.raises(ValueError, match=r"simulation\.json is damaged: a configuration has n = "):
        rendered(Results.load(single(tmp_path / "one", config={**CONFIG, "n": n})))
    with pytest.raises(ValueError, match=r"experiment\.json is damaged: a configuration has n = "):
        rendered(Results.load(experiment(tmp_path / "many", config={**CONFIG, "n": n})))


INDICES: dict[str, dict[str, Any]] = {
    "a title in a list": {"title": ["t"]},
    "a scale in words": {"scale": "small"},
    "what was left out, a number": {"left_out": 3},
    "what was left out, numbers": {"left_out": [3]},
    "versions in a list": {"versions": ["1.0"]},
    "claims that are a table": {"claims": {}},
    "numbers that are text": {"numbers": ["one"]},
    "a server, which only a journal has": {"server": {}},
}


@pytest.mark.parametrize("what", INDICES)
def test_an_index_that_no_experiment_writes(what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it is not the index of an experiment"):
        rendered(Results.load(experiment(tmp_path, INDICES[what])))


def test_names_in_an_index_are_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it is not the index of an experiment"):
        rendered(Results.load(experiment(tmp_path, rule=["krum"])))


LINES: dict[str, dict[str, Any]] = {
    "workers that are a number": {"workers": 5},
    "workers in lists": {"workers": [["ann"]]},
    "absent workers that are a number": {"absent": 3},
    "a list in quarantine": {"quarantined": ["ann"]},
    "a reason that is a table": {"quarantined": {"ann": {}}},
    "a rule that is a table": {"drawn": {"Krum": 1}},
    "choices that are a number": {"selected": 4},
    "suspects that are a number": {"suspects": 4},
    "a round that is a truth value": {"round": True},
    "a round in words": {"round": "one"},
    "values in a list": {"values": [1]},
    "values in words": {"values": {"accuracy": "high"}},
    "a title that is a list": {"title": [1]},
}


@pytest.mark.parametrize("what", LINES)
def test_a_line_that_no_journal_writes(what: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Line 2 of .* is no line of a journal"):
        rendered(Results.load(journal(tmp_path, {"title": "t"}, {**LINE, **LINES[what]})))


@pytest.mark.parametrize("style", ["page", "paper"])
def test_a_name_between_dollars_is_no_formula(style: str, tmp_path: Path) -> None:
    """A rule called by a broken formula stopped all figures."""
    pytest.importorskip("matplotlib")
    results = Results.load(experiment(tmp_path, rule=r"$\frac$", panel=r"$x_{$"))
    (figure,) = draw_results(results, tmp_path / "figures", ["svg"], style=style)
    assert r"$\frac$" in figure.read_text(encoding="utf-8")


def test_a_name_of_many_parentheses_takes_no_time() -> None:
    """A pass over the text for each level took minutes for a hundred thousand of them."""
    begun = time.process_time()
    assert plain_rule("Krum" + "(" * 200_000 + ")" * 200_000) == "Krum"
    assert plain_rule("a(b)c(d(e)f)") == "ac" and plain_rule("a(b") == "a(b" and plain_rule("a)b(c)") == "a)b"
    assert time.process_time() - begun < 10
