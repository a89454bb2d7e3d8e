"""Training from the command line, in processes of their own, as a user would."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mixtailor.cli import arena, main
from mixtailor.experiments import Results
from mixtailor.experiments.shipped import ours

TOML = """
title = "two rules"
[run]
data = "synthetic"
model = "logistic"
rounds = 20
evaluate_every = 5
batch = 4
rule = ["krum", "comed"]
attack = {name = "tailored", epsilon = 0.1}
seed = [0, 1]
"""


def mixtailor(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mixtailor", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300)


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(TOML)
    return path


def test_run_report_and_run_again(experiment: Path, tmp_path: Path) -> None:
    """A sweep over two processes, its table and page; again, and nothing is repeated; the page alone, with figures."""
    first = mixtailor("run", experiment, "--out", tmp_path / "out", "--jobs", 2, COLUMNS="100")
    assert first.returncode == 0, first.stderr
    assert first.stderr == "", "quiet where nobody watches"
    assert "worst" in first.stdout and "4 runs made, 0 known before" in first.stdout
    assert str(tmp_path / "out" / "two" / "report.html") in first.stdout.replace("\n", "")
    again = mixtailor("run", experiment, "--out", tmp_path / "out", "--json")
    assert again.returncode == 0
    found = json.loads(again.stdout)
    assert len(found["runs"]) == 4 and found["groups"][0]["rules"] == ["krum", "comed"]
    page = mixtailor("report", tmp_path / "out" / "two", "--figures", "--json")
    written = json.loads(page.stdout)
    assert {Path(path).suffix for path in written["figures"]} == {".png", ".svg"}
    assert all(Path(path).stat().st_size > 5_000 for path in written["figures"])


def test_a_wrong_file_is_one_line_and_exits_1(
    experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.write_text(TOML.replace("evaluate_every", "evaluate_evry"))
    assert main(["run", str(experiment), "--out", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert shown.err == "two: there is no key 'evaluate_evry'. Did you mean 'evaluate_every'?\n" and shown.out == ""
    assert main(["run", str(tmp_path / "none.toml")]) == 1
    assert "No such file" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 1
    assert "no experiment.json" in capsys.readouterr().err


def test_a_failed_run_exits_1_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Label flipping with all data at the honest workers has nothing to flip: that run fails, the other is made."""
    path = tmp_path / "mixed.toml"
    path.write_text(
        TOML.replace(
            'attack = {name = "tailored", epsilon = 0.1}', 'attack = ["label_flip", "zero", "alie"]\nspread = "honest"'
        ).replace("[0, 1]", "[0]")
    )
    assert main(["run", str(path), "--out", str(tmp_path), "--jobs", "1", "--json"]) == 1
    shown = capsys.readouterr()
    assert "Failed: 2 runs (krum / label_flip / seed 0, comed / label_flip / seed 0): ValueError" in shown.err
    assert sum(run["error"] is None for run in json.loads(shown.out)["runs"]) == 2
    assert main(["run", str(path), "--out", str(tmp_path), "--jobs", "1"]) == 1
    assert "0 runs made, 2 known before, 4 failed" in capsys.readouterr().out


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_a_run_that_resumes(tmp_path: Path) -> None:
    """Interrupted, the command exits 130 without a traceback; repeated, it goes on and ends with the same weights."""
    path = tmp_path / "long.toml"
    path.write_text(
        TOML.replace("rounds = 20", "rounds = 1500").replace('["krum", "comed"]', '"krum"').replace("[0, 1]", "0")
    )
    command = [sys.executable, "-m", "mixtailor", "run", str(path), "--jobs", "1", "--out", str(tmp_path / "stopped")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("stopped/runs/*/metrics.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors
    assert "the same command resumes" in errors
    assert not list(tmp_path.glob("stopped/runs/*/summary.json"))
    for folder in ("stopped", "whole"):
        done = mixtailor("run", path, "--jobs", 1, "--out", tmp_path / folder)
        assert done.returncode == 0, done.stderr
    first, second = (
        next((tmp_path / folder).glob("runs/*/weights.npz")).read_bytes() for folder in ("stopped", "whole")
    )
    assert first == second


def test_reproduce_lists_shows_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["fig1"]["runs"] == 64 and len(listed) == 13
    assert main(["reproduce", "fig1", "--show"]) == 0
    assert "[[claims]]" in capsys.readouterr().out
    assert main(["reproduce", "hyper-parameters", "--out", str(tmp_path), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)["numbers"]
    assert all(number["low"] == number["ours"] for number in numbers)
    assert main(["reproduce", "adaptive", "--out", str(tmp_path), "--known", "--keep", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []
    assert json.loads((tmp_path / "adaptive.json").read_text(encoding="utf-8"))["runs"] == []
    assert main(["reproduce", "adaptive", "--from", str(tmp_path), "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert len(judged["missing"]) == 14 and {claim["says"] for claim in judged["claims"]} == {"not measured"}
    assert main(["reproduce", "fig2"]) == 1
    assert "Did you mean 'fig1'" in capsys.readouterr().err
    assert main(["reproduce", "fig1", "--panels", "EMNIST"]) == 1
    assert "There are: MNIST, epsilon = 0.1;" in capsys.readouterr().err
    assert main(["reproduce"]) == 2
    assert "fig1" in capsys.readouterr().err


def test_arena_takes_pools_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--rules", "krum", "--pool", "comed, nnm >> krum", "--attacks", "tailored 0.1", "--scale", "0.05"]
    assert main(["arena", *chosen, "--seeds", "1", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert "MixTailor (comed, nnm >> krum)" in capsys.readouterr().out
    assert main(["arena", "--pool", "comed, krumm", "--out", str(tmp_path)]) == 1
    assert "Did you mean 'krum'?" in capsys.readouterr().err


OWN = """
import numpy as np
from dataclasses import dataclass
from mixtailor.attacks import Attack

def middle(updates):
    return updates.median(0).values

@dataclass(frozen=True)
class Opposite(Attack):
    size: float = 3.0

    def points(self, scene):
        return [scene.honest.combine(np.full(scene.honest.n, -self.size / scene.honest.n))] * scene.f
"""


def test_arena_takes_rules_and_attacks_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their file, with parameters in parentheses, beside those that it has."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_arena.py").write_text(OWN)
    chosen = ["--rules", "own_arena.py:middle,krum", "--attacks", "own_arena.py:Opposite(size=0.1)"]
    assert main(["arena", *chosen, "--scale", "0.02", "--seeds", "1", "--jobs", "1", "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert group["rules"] == ["own_arena.py:middle", "krum"] and group["attacks"] == ["own_arena.py:Opposite(size=0.1)"]
    assert main(["arena", "--rules", "midle"]) == 2
    assert "One of yours is written mine.py:Nearest." in capsys.readouterr().err
    assert main(["arena", "--f", "6"]) == 2
    assert "--f 6 needs --n 13 or more (n >= 2f + 1), and n is 12. Lower --f." in capsys.readouterr().err


def test_arena_takes_every_registered_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of `mixtailor attacks` and rules with parameters, beside the labels of the arena's own list."""
    chosen = ["--rules", "krum(p=3),nnm >> krum(p=3)", "--attacks", "tailored,tailored(epsilon=0.3),tailored 10"]
    arguments = ["--scale", "0.02", "--seeds", "1", "--jobs", "1", "--json", "--out", str(tmp_path)]
    assert main(["arena", *chosen, *arguments]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert group["rules"] == ["krum(p=3)", "nnm >> krum(p=3)"]
    assert group["attacks"] == ["tailored", "tailored(epsilon=0.3)", "tailored 10"]
    assert main(["arena", "--attacks", "tailord(epsilon=1)"]) == 2


def test_arena_ranks_by_the_worst_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two rules and a pool against two attacks, with one liar less and one more than declared."""
    chosen = ["--rules", "mean,comed,MixTailor (our pool)", "--attacks", "tailored 10,ALIE 1", "--misdeclared"]
    arguments = ["arena", *chosen, "--scale", "0.1", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path)]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (group,) = found["groups"]
    assert group["attacks"][0] == "tailored 10, 1 Byzantine" and len(group["attacks"]) == 6
    # comed alone tolerates more Byzantine workers than were declared, since it takes no f.
    assert group["worst"][0]["rule"] == "comed"
    assert "runs:" in found["budget"]
    assert main(arguments) == 0
    assert "less comed, the best single rule" in capsys.readouterr().out
    assert main(["arena", "--rules", "krumm"]) == 2
    assert "Did you mean 'krum'" in capsys.readouterr().err


def test_arena_beyond_twelve_workers_and_iid_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other workers, partition, identities and participation: runs of their own, in a folder of their own."""
    chosen = ["--rules", "comed", "--attacks", "drift,expected drift", "--scale", "0.05", "--no-halving"]
    chosen += ["--n", "20", "--f", "3", "--partition", "dirichlet(alpha=0.1)", "--identities", "5"]
    chosen += ["--participation", "0.5", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path)]
    assert main(["arena", *chosen]) == 0
    (folder,) = tmp_path.glob("arena-*")
    assert folder.name == "arena-digits-n20-f3-dirichlet-0.1-identities-5-participation-0.5"
    found = Results.load(folder).runs[0].config
    assert (found["n"], found["identities"], found["participation"]) == (20, 5, 0.5)
    assert found["partition"] == {"name": "dirichlet", "alpha": 0.1}
    assert main(["arena", "--partition", "dirichlet(0.1)", "--out", str(tmp_path)]) == 2
    assert "need names, as in dirichlet(alpha=0.1)" in " ".join(capsys.readouterr().err.split())
    assert main(["arena", "--identities", "often", "--out", str(tmp_path)]) == 1
    assert "identities is 'often'" in capsys.readouterr().err


@pytest.mark.parametrize(("preset", "rates"), [("digits", {0.05, 0.5}), ("mnist", {0.001, 0.01})])
def test_the_arena_steps_as_far_with_momentum_at_the_workers_as_at_the_server(preset: str, rates: set[float]) -> None:
    """A momentum of 0.9 at the server adds up ten gradients; at the workers it is their average."""
    experiment = arena._paced(ours("arena"), preset).changed({"preset": preset}, seeds=[0])
    assert {entry.config.learning_rate for entry in experiment.entries(1.0)} == rates


def test_a_wrong_value_is_told_once(experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of four runs that fail alike there is one line."""
    experiment.write_text(TOML + 'partition = {name = "dirichlet", alpha = -1.0}\n')
    assert main(["run", str(experiment), "--out", str(tmp_path / "out"), "--jobs", "1"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Failed: 4 runs (krum / tailored epsilon=0.1 / seed 0, ") and "alpha above 0" in line
