"""Curves of complete runs: kept in small files, redrawn and judged without training."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mixtailor.experiments import Experiment, Results, keep_curves, kept_curves, run
from mixtailor.experiments.claims import verdicts
from mixtailor.experiments.curves import thinned
from mixtailor.experiments.errors import ConfigError
from mixtailor.report import draw_results

TEXT = """
title = "t"
[run]
data = "synthetic"
model = "logistic"
rounds = 8
evaluate_every = 2
rule = ["krum", "comed"]
seed = [0, 1]
[[panels]]
title = "quiet"
run = { attack = { name = "tailored", epsilon = 0.1 } }
[[panels]]
title = "loud"
run = { attack = { name = "tailored", epsilon = 10.0 } }
[[claims]]
text = "c"
rule = "krum"
than = "comed"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    run(Experiment.parse(TEXT, "small"), folder)
    return folder


def test_curves_give_the_same_verdicts_as_the_runs(made: Path, tmp_path: Path) -> None:
    """To the two decimals that are kept."""
    experiment, results = Experiment.parse(TEXT, "small"), Results.load(made / "small")
    path = keep_curves(results, tmp_path)
    kept = kept_curves(experiment, tmp_path)
    assert not kept.missing and len(kept.runs) == 8
    for own, other in zip(kept.runs, results.runs, strict=True):
        assert (own.hash, own.seed, own.complete) == (other.hash, other.seed, True)
        assert own.accuracy() == pytest.approx(other.accuracy(), abs=0.006)
        assert own.fluctuation() == pytest.approx(other.fluctuation(), abs=0.02)
        assert own.microseconds() == pytest.approx(other.microseconds(), abs=0.06)
    margins = [[verdict.margin for verdict in verdicts(either)] for either in (kept, results)]
    assert margins[0] == pytest.approx(margins[1], abs=0.02)
    assert path.stat().st_size < 8 * 600 and "weights" not in path.read_text()


def test_the_file_grows_and_keeps_the_longer_run(made: Path, tmp_path: Path) -> None:
    experiment, results = Experiment.parse(TEXT, "small"), Results.load(made / "small")
    keep_curves(Results(results.index, results.runs[:3], []), tmp_path)
    first = kept_curves(experiment, tmp_path)
    assert len(first.runs) == 3 and len(first.missing) == 5
    assert [verdict.says for verdict in verdicts(first)][1] == "not measured", "a panel without runs is not left out"
    keep_curves(Results(results.index, results.runs[3:], []), tmp_path)
    run(experiment, tmp_path / "short", scale=0.5)
    path = keep_curves(Results.load(tmp_path / "short" / "small"), tmp_path)
    assert [table["rounds"] for table in json.loads(path.read_text())["runs"]] == [8] * 8


def test_a_run_that_was_stopped_is_kept_as_the_shorter_run_that_it_is(made: Path, tmp_path: Path) -> None:
    """Where that is asked for, and where the learning rate does not depend on the number of rounds."""
    whole = Results.load(made / "small")
    stopped = [replace(run, records=run.records[:-2], complete=False) for run in whole.runs[:2]]
    stopped[1].config["rate"] = {"name": "cosine"}
    results = Results(whole.index, stopped, [])
    assert json.loads(keep_curves(results, tmp_path).read_text())["runs"] == []
    (kept,) = json.loads(keep_curves(results, tmp_path, unfinished=True).read_text())["runs"]
    assert kept["rounds"] == 4 and kept["curve"][-1][0] == 4
    assert kept_curves(Experiment.parse(TEXT, "small"), tmp_path).runs[0].rounds == 4


def test_experiments_share_the_runs_that_they_have_in_common(made: Path, tmp_path: Path) -> None:
    """A run kept for one experiment serves another, under the names that it has there."""
    keep_curves(Results.load(made / "small"), tmp_path)
    (tmp_path / "other.json").write_text("{}")
    again = kept_curves(
        Experiment.parse(TEXT.replace('"quiet"', '"silent"').replace("[0, 1]", "[1, 2]"), "y"), tmp_path
    )
    assert {(run.panel, run.seed) for run in again.runs} == {("silent", 1), ("loud", 1)}
    assert {entry["config"]["seed"] for entry in again.missing} == {2}


def test_of_a_run_that_two_experiments_keep_the_longer_serves_both(made: Path, tmp_path: Path) -> None:
    """Whatever the names of their files are: each has the shorter one once."""
    experiment, results = Experiment.parse(TEXT, "small"), Results.load(made / "small")
    stopped = [replace(run, records=run.records[:-2], complete=False) for run in results.runs]
    for longer, shorter in (("small", "z"), ("z", "small")):
        folder = tmp_path / longer
        folder.mkdir()
        keep_curves(results, folder, longer)
        keep_curves(Results(results.index, stopped, []), folder, shorter, unfinished=True)
        for name in ("small", "z"):
            kept = kept_curves(experiment.model_copy(update={"name": name}), folder)
            assert {run.rounds for run in kept.runs} == {8} and len(kept.runs) == 8


def test_a_picture_is_drawn_from_curves_alone_twice_the_same(made: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    keep_curves(Results.load(made / "small"), tmp_path)
    results = kept_curves(Experiment.parse(TEXT, "small"), tmp_path)
    first = [path.read_bytes() for path in draw_results(results, tmp_path / "a", ["svg"], prefix="x-")]
    again = [path.read_bytes() for path in draw_results(results, tmp_path / "b", ["svg"], prefix="x-")]
    assert len(first) == 2 and first == again
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["x-01-quiet.svg", "x-02-loud.svg"]


def test_what_is_no_file_of_curves_is_refused(tmp_path: Path) -> None:
    (tmp_path / "small.json").write_text('{"format": 1, "runs": [{"panel": "p"}]}')
    with pytest.raises(ConfigError, match="not a file of curves"):
        kept_curves(Experiment.parse(TEXT, "small"), tmp_path)


def test_short_curves_are_kept_whole() -> None:
    curve = [(k, 1.0) for k in range(7)]
    assert thinned(curve) == curve and thinned([]) == []
