"""The page holds everything, asks for nothing, and says what the files say."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from report.conftest import TEXT

from mixtailor.experiments import Experiment, Results
from mixtailor.experiments import run as run_experiment
from mixtailor.experiments.worst import groups
from mixtailor.report import draw, write
from mixtailor.report.figures import figure_name
from mixtailor.report.summary import Chart, caption, charts, drawn_classes, summary


def test_the_page_is_one_file_without_a_network(folder: Path) -> None:
    text = write(folder).read_text(encoding="utf-8")
    assert len(text) < 5_000_000
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text), "addresses"
    assert not re.findall(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=(?![\"']data:)", text)
    assert "default-src 'none'" in text


def test_what_an_experiment_says_is_escaped(folder: Path) -> None:
    """A title with markup is text on the page, in the HTML and inside the data."""
    text = write(folder).read_text(encoding="utf-8")
    assert "<script>alert(1)</script>" not in text and "<b>mean</b>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_the_data_are_those_of_the_runs(folder: Path) -> None:
    results = Results.load(folder)
    shown = summary(results)
    text = write(folder).read_text(encoding="utf-8")
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert embedded is not None
    assert json.loads(embedded[1]) == json.loads(json.dumps(shown))
    chart = charts(results)[0]
    krum = next(line for line in chart.series if line.rule == "krum")
    runs = results.chosen(rule="krum", attack="tailored epsilon=0.1")
    last = [100 * run.records[-1]["accuracy"] for run in runs]
    assert krum.rounds == [0, 3, 6, 9, 12] and krum.seeds == 2
    assert krum.mean[-1] == pytest.approx(sum(last) / 2, abs=0.01)
    assert (krum.low[-1], krum.high[-1]) == pytest.approx((min(last), max(last)), abs=0.01)


def test_draws_and_choices_are_counted(folder: Path) -> None:
    results = Results.load(folder)
    drawn = drawn_classes(results.chosen(rule="MixTailor"))
    assert sum(drawn.values()) == 4 * 12 and set(drawn) <= {"Krum", "Comed", "GeometricMedian", "Bulyan"}
    chosen = summary(results)["charts"][0]["chosen"]
    assert sum(chosen["byzantine"]) == 2
    krum = next(row for row in chosen["rows"] if row["rule"] == "krum")
    assert sum(krum["shares"]) == pytest.approx(1.0, abs=1e-3)


def test_accounts_are_those_of_the_records(folder: Path) -> None:
    """All rounds count, quiet and loud Byzantine workers are marked, and an experiment of an older version has none."""
    results = Results.load(folder)
    accounts = summary(results)["charts"][0]["accounts"]
    assert [account["rule"] for account in accounts] == ["krum", "MixTailor", "<b>mean</b>"]
    for account in accounts:
        assert len(account["workers"]) == 12 and sum(item["lied"] for item in account["workers"]) == 2
        assert {item["rounds"] for item in account["workers"]} == {12}
    krum = accounts[0]["workers"]
    assert sum(item["selected"] for item in krum) == 12 and all(item["expected"] == 1.0 for item in krum)
    for run in results.runs:
        for record in run.records:
            record.pop("reputation")
    assert all(chart["accounts"] == [] for chart in summary(results)["charts"])


def test_every_part_is_on_the_page(folder: Path) -> None:
    text = write(folder).read_text(encoding="utf-8")
    for part in ("Worst case", "Accuracy over the rounds", "Which rules were drawn", "Whom the rules chose",
                 "Time per aggregation", "What the server could know", "Configuration", "Versions and seeds",
                 "What the paper says"):  # fmt: skip
        assert part in text, part
    results = Results.load(folder)
    assert caption(results) == "12 rounds, 2 seeds (0, 1)"
    assert caption(replace(results, index={**results.index, "scale": 0.05})).endswith("scale 0.05 of the rounds")


def test_unfinished_experiments_have_a_page(folder: Path, tmp_path: Path) -> None:
    """A run that is missing is named with what stopped it; one that is not complete is counted."""
    shutil.copytree(folder.parent, tmp_path / "copy")
    copy = tmp_path / "copy" / folder.name
    homes = sorted((tmp_path / "copy" / "runs").iterdir())
    (homes[0] / "metrics.jsonl").unlink()
    (homes[0] / "error.txt").write_text("ValueError: out of paper")
    (homes[1] / "summary.json").unlink()
    text = write(copy).read_text(encoding="utf-8")
    assert "ValueError: out of paper" in text and "1 run unfinished, 1 missing" in text


def test_an_experiment_without_runs_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    index = {"name": "none", "title": "Nothing", "claims": [], "numbers": [], "entries": []}
    (tmp_path / "none" / "experiment.json").write_text(json.dumps(index))
    assert "Nothing" in write(tmp_path / "none").read_text(encoding="utf-8")
    assert draw(tmp_path / "none") == []


def test_figures_carry_rounds_and_seeds(folder: Path) -> None:
    written = draw(folder)
    assert len(written) == 4
    svg = next(path for path in written if path.suffix == ".svg").read_text(encoding="utf-8")
    assert "<!-- 12 rounds, 2 seeds (0, 1) -->" in svg
    png = next(path for path in written if path.suffix == ".png").read_bytes()
    assert png.startswith(b"\x89PNG") and len(png) > 10_000


def test_weights_of_different_numbers_of_liars_are_not_averaged(folder: Path) -> None:
    """Each chart and number of Byzantine workers has its own line, and a rule without weights is named."""
    results = Results.load(folder)
    runs = []
    for run in results.runs:
        own = 4 if run.attack == "tailored epsilon=10" else 2
        for record in run.records:
            record |= {"byzantine_weight": own / 10, "weighed": 3} if record["round"] else {"byzantine_weight": None}
            if run.rule != "krum":
                record["byzantine_weight"] = None
        runs.append(replace(run, config={**run.config, "byzantine": own}))
    found = summary(Results(results.index, runs, []))["weights"]
    assert [(part["byzantine"], part["n"], part["rules"][0]["weight"]) for part in found] == [
        (2, 12, 0.2),
        (4, 12, 0.4),
    ]
    assert [line["rule"] for line in found[0]["rules"]] == ["krum", "MixTailor", "<b>mean</b>"]
    assert found[0]["rules"][2] == {"rule": "<b>mean</b>", "weight": None, "rounds": 0.0}


def test_weights_count_rounds_and_not_evaluations(folder: Path) -> None:
    """A period of which one round has weights counts a ninth of one with nine."""
    (run, *_) = Results.load(folder).chosen(rule="krum")
    first, second = ({"drawn": {"x": 9}, "byzantine_weight": w, "weighed": k} for w, k in ((1.0, 1), (0.0, 9)))
    index = {"title": "t", "claims": [], "numbers": []}
    records = [{**run.records[1], **part} for part in (first, second)]
    (part,) = summary(Results(index, [replace(run, records=records)], []))["weights"]
    assert part["rules"] == [{"rule": "krum", "weight": 0.1, "rounds": round(10 / 18, 4)}]


def test_the_page_says_how_many_evaluations_were_averaged(folder: Path) -> None:
    assert "the mean of the last 4 evaluations." in write(folder).read_text(encoding="utf-8")


def test_names_tell_runs_apart_and_are_not_cut(tmp_path: Path) -> None:
    """A sweep over a parameter of the partition: in the tables, in names of files and in titles, which wrap."""
    text = TEXT.replace(
        'rule = ["krum", {name = "paper_pool", label = "MixTailor"}, {name = "mean", label = "<b>mean</b>"}]',
        'rule = "krum"\npartition = [{name = "dirichlet", alpha = 0.1}, {name = "dirichlet", alpha = 10.0}]',
    )
    text = text.split("[[claims]]")[0].replace("12\n", "2\n").replace("= 3\n", "= 1\n").replace("[0, 1]", "0")
    assert not any(item.error for item in run_experiment(Experiment.parse(text, "alpha"), tmp_path))
    results = Results.load(tmp_path / "alpha")
    titles = [group.title for group in groups(results)]
    assert titles == [f"synthetic, n = 12, f = 2, partition = dirichlet alpha={alpha}" for alpha in ("0.1", "10")]
    names = [path.stem for path in draw(tmp_path / "alpha", ["svg"])]
    assert len(set(names)) == 4 and all(name.endswith(("-alpha-0.1", "-alpha-10")) for name in names), names
    path = next(path for path in (tmp_path / "alpha" / "figures").iterdir() if "epsilon-10" in path.name)
    svg = path.read_text(encoding="utf-8")
    lines = re.findall(r"<!-- (.*?) -->", svg)
    shown = " ".join(lines)
    assert all(word in shown for word in ("tailored", "epsilon=10", "dirichlet", "alpha="))
    assert max(map(len, lines)) <= 72


def test_a_name_beyond_what_file_systems_allow_still_tells_charts_apart() -> None:
    one, other = (Chart("word " * 100 + end, [], []) for end in ("a", "b"))
    assert figure_name(1, one) != figure_name(1, other) and len(figure_name(1, one)) <= 210
