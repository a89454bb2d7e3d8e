"""Accuracies, worst cases and verdicts from files written by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mixtailor.experiments import Results
from mixtailor.experiments.claims import verdicts
from mixtailor.experiments.worst import difference, groups, worst_cases
from mixtailor.simulation import Outcome


def written(folder: Path, cells: dict[tuple[str, str, int], list[float]], *, start: int = 1, **more: Any) -> Results:
    """An experiment whose runs have the given accuracies from round `start` on, by rule, attack and seed."""
    entries = []
    for place, ((rule, attack, seed), accuracies) in enumerate(cells.items()):
        config = {"data": "digits", "n": 12, "f": 2, "byzantine": 2, "momentum": 0.9, "rule": {"name": rule}}
        home = folder / "runs" / str(place)
        home.mkdir(parents=True)
        lines = [
            {"round": k, "accuracy": a, "rule_seconds": {"Krum(f=2)": 1e-3}, "drawn": {"Krum(f=2)": 2}}
            for k, a in enumerate(accuracies, start)
        ]
        (home / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (home / "summary.json").write_text("{}")
        where = {"panel": "p", "rule": rule, "attack": attack, "setting": "", "hash": str(place)}
        entries.append({**where, "config": {**config, "attack": {"name": attack}, "seed": seed}})
    (folder / "x").mkdir()
    index = {"name": "x", "title": "t", "claims": [], "numbers": [], "entries": entries, **more}
    (folder / "x" / "experiment.json").write_text(json.dumps(index))
    return Results.load(folder / "x")


def test_accuracy_is_the_mean_of_the_last_five_never_the_best(tmp_path: Path) -> None:
    results = written(tmp_path, {("a", "t", 0): [0.1, 0.99, 0.5, 0.6, 0.7, 0.8, 0.4]})
    run = results.runs[0]
    assert run.accuracy() == pytest.approx(60.0)
    assert run.fluctuation(3) == pytest.approx(100 * np.std([0.7, 0.8, 0.4]))
    assert run.microseconds() == pytest.approx(500.0)


def test_what_precedes_training_never_counts(tmp_path: Path) -> None:
    """With two evaluations after it, the untrained model of round 0 is no part of the accuracy, nor of its noise."""
    run = written(tmp_path, {("a", "t", 0): [0.1, 0.9, 0.96]}, start=0).runs[0]
    assert run.accuracy() == pytest.approx(93.0) and run.averaged() == 2
    assert run.fluctuation() == pytest.approx(3.0)
    outcome = Outcome(torch.zeros(1), run.records, None)
    assert outcome.accuracy() == pytest.approx(0.93)


def test_a_run_that_has_not_trained_yet_is_missing(tmp_path: Path) -> None:
    results = written(tmp_path, {("a", "t", 0): [0.1]}, start=0)
    assert not results.runs and results.missing[0]["error"] == "not run yet"


def test_time_is_a_median_and_first_calls_do_not_count(tmp_path: Path) -> None:
    """One period that took long, and rules that were drawn differently often."""
    run = written(tmp_path, {("a", "t", 0): [0.1, 0.2, 0.3]}).runs[0]
    for record, seconds in zip(run.records, (0.04, 0.001, 0.001), strict=True):
        record |= {"median_seconds": {"slow": 3 * seconds, "fast": seconds}, "drawn": {"slow": 1, "fast": 2, "once": 1}}
    assert run.microseconds() == pytest.approx((3 * 3000 + 6 * 1000) / 9)
    for record in run.records:
        record["median_seconds"] = {}
    assert run.microseconds() is None, "no rule was called twice"


def test_worst_case_is_the_least_mean_over_seeds(tmp_path: Path) -> None:
    """Worst by attack of the mean over seeds, not the least single run; the best worst case comes first."""
    cells = {
        ("a", "t", 0): [0.9], ("a", "t", 1): [0.3], ("a", "u", 0): [0.5], ("a", "u", 1): [0.5],
        ("b", "t", 0): [0.8], ("b", "t", 1): [0.8], ("b", "u", 0): [0.7], ("b", "u", 1): [0.6],
    }  # fmt: skip
    (group,) = groups(written(tmp_path, cells))
    best, worst = worst_cases(group)
    assert (best.rule, best.attack, best.seeds) == ("b", "u", 2) and best.accuracy == pytest.approx(65.0)
    assert (worst.rule, worst.attack) == ("a", "u") and worst.accuracy == pytest.approx(50.0)
    assert best.low == pytest.approx(60.0) and best.high == pytest.approx(70.0)
    assert worst.low == pytest.approx(30.0), "with both seeds bad, the other attack is the worst"
    found = difference(group, "b", "a")
    assert found is not None and found[0] == pytest.approx(15.0) and found[1] <= 15.0 <= found[2]


def test_a_rule_without_all_attacks_has_no_worst_case(tmp_path: Path) -> None:
    cells = {("a", "t", 0): [0.9], ("b", "t", 0): [0.8], ("b", "u", 0): [0.7]}
    (group,) = groups(written(tmp_path, cells))
    assert [case.rule for case in worst_cases(group)] == ["b"]
    assert difference(group, "a", "b") is None


def test_a_rule_with_a_run_that_failed_has_no_worst_case(tmp_path: Path) -> None:
    """The attack that stopped it may be its worst: it is no attack that was cut for doing little harm."""
    cells = {(rule, attack, seed): [0.9] for rule in "ab" for attack in "tu" for seed in (0, 1)}
    written(tmp_path, cells)
    (tmp_path / "runs" / "3" / "summary.json").unlink()
    unfinished = Results.load(tmp_path / "x")
    assert [case.rule for case in worst_cases(groups(unfinished)[0])] == ["a", "b"] and not unfinished.failed()
    (tmp_path / "runs" / "3" / "error.txt").write_text("ValueError: no\n")
    results = Results.load(tmp_path / "x")
    (entry,) = results.failed()
    assert (entry["rule"], entry["attack"], entry["error"]) == ("a", "u", "ValueError: no") and len(results.runs) == 7
    (group,) = groups(results)
    assert [case.rule for case in worst_cases(group)] == ["b"] and difference(group, "a", "b") is None


def test_the_bootstrap_interval_covers(tmp_path: Path) -> None:
    """Of one attack and many seeds, the interval is near the textbook one for a mean."""
    random = np.random.default_rng(0)
    values = random.normal(0.7, 0.05, 60)
    (group,) = groups(written(tmp_path, {("a", "t", seed): [float(v)] for seed, v in enumerate(values)}))
    (case,) = worst_cases(group)
    half = 1.96 * 100 * values.std() / np.sqrt(60)
    assert case.high - case.low == pytest.approx(2 * half, rel=0.1)


def test_verdicts_say_by_how_much(tmp_path: Path) -> None:
    cells = {("a", "t", 0): [0.80], ("b", "t", 0): [0.90], ("c", "t", 0): [0.50]}
    claims = [
        {"text": "within 15", "rule": "a", "than": "b", "by": -15.0},
        {"text": "within 5", "rule": "a", "than": "b", "by": -5.0},
        {"text": "above the worst", "rule": "a", "than": ["b", "c"], "pick": "worst"},
        {"text": "below the best", "rule": "a", "than": ["b", "c"], "pick": "best", "is_": "at most"},
        {"text": "above the mean", "rule": "a", "than": ["b", "c"], "pick": "mean"},
        {"text": "unknown", "rule": "a", "than": "z"},
        {"text": "a number", "rule": "c", "than": 60.0, "is_": "at most"},
    ]
    found = verdicts(written(tmp_path, cells, claims=claims))
    assert [verdict.says for verdict in found] == [
        "holds, by 5.00", "does not, by 5.00", "holds, by 30.00", "holds, by 10.00", "holds, by 10.00",
        "not measured", "holds, by 10.00",
    ]  # fmt: skip


def test_a_folder_without_an_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no experiment\.json"):
        Results.load(tmp_path)


@pytest.mark.parametrize("name", ["../../elsewhere", "", "a" * 300, 7])
def test_a_run_has_the_name_of_a_folder(tmp_path: Path, name: object) -> None:
    """Anything else that an index names is damage, said in a sentence, and is not looked for on the disk."""
    written(tmp_path, {("a", "t", 0): [0.1]})
    path = tmp_path / "x" / "experiment.json"
    index = json.loads(path.read_text())
    index["entries"][0]["hash"] = name
    path.write_text(json.dumps(index))
    with pytest.raises(ValueError, match="is damaged"):
        Results.load(path.parent)


def test_claims_across_panels(tmp_path: Path) -> None:
    """`than` may be read in other panels, and both sides may be the worst over several."""
    cells = {("a", "t", 0): [0.0, 0.9], ("b", "t", 0): [0.0, 0.5]}
    results = written(tmp_path, {**cells, ("a", "u", 0): [0.0, 0.3], ("b", "u", 0): [0.0, 0.4]})
    runs = [replace(run, panel=run.attack, config={**run.config, "rounds": 1}) for run in results.runs]
    run = {"rule": "a", "than": "b", "text": ""}
    claims = [
        {**run, "panels": ["t"], "in_panels": ["u"]},
        {**run, "panels": ["t"], "in_panels": ["t", "u"], "pick": "best"},
        {**run, "worst_of": ["t", "u"]},
        {**run, "worst_of": ["t", "v"]},
        {**run, "panels": ["t"], "measure": "beginning"},
    ]
    found = verdicts(Results({**results.index, "claims": claims}, runs, []))
    # The last evaluations are two here, of which the first is 0.
    assert [verdict.margin for verdict in found[:3]] == pytest.approx([25.0, 20.0, -5.0])
    assert found[2].panel == "the worst of t, u" and found[3].margin is None
    assert found[4].margin is None, "no evaluation within the first tenth"


def test_runs_of_different_lengths_are_compared_after_as_many_rounds(tmp_path: Path) -> None:
    """A longer run, cut, is the shorter one; where a schedule depends on the length, there is no verdict."""
    claim = {"text": "a beats b", "rule": "a", "than": "b"}
    results = written(tmp_path, {("a", "t", 0): [0.5, 0.6], ("b", "t", 0): [0.4, 0.5, 0.9, 0.9]}, claims=[claim])
    verdict = verdicts(results)[0]
    assert verdict.ours == pytest.approx(55.0) and verdict.other == pytest.approx(45.0) and verdict.rounds == 2
    assert verdict.says == "holds, by 10.00, after 2 rounds"
    of_mnist = [replace(run, config={**run.config, "data": "mnist", "rounds": 2}) for run in results.runs]
    alike = verdicts(Results(results.index, of_mnist, []))[0]
    assert alike.rounds == 2, "runs of one length, which is not the paper's"
    long = next(run for run in results.runs if run.rule == "b")
    assert long.until(4) is long and long.until(0) is None
    long.config["rate"] = {"name": "cosine"}
    assert long.until(2) is None and verdicts(results)[0].says == "not measured"
