"""Sweeps: each run once, in parallel, resumed, and none stopped by another."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mixtailor.experiments import Experiment, Finished, Results, run
from mixtailor.experiments.building import simulation_of
from mixtailor.experiments.config import RunConfig
from mixtailor.experiments.errors import ConfigError

TEXT = """
title = "a tiny sweep"
[run]
data = "synthetic"
model = "logistic"
rounds = 10
evaluate_every = 2
batch = 4
n = 9
attack = [{name = "tailored", epsilon = 0.1}, "none"]
rule = ["krum", "comed", {name = "paper_pool", without = ["bulyan"], label = "MixTailor"}]
seed = [0, 1]
"""


def final_lines(out: Path) -> dict[str, str]:
    """The last accuracy of each run, as its file has it."""
    return {
        path.parent.name: json.loads(path.read_text().splitlines()[-1])["accuracy"]
        for path in sorted(out.glob("runs/*/metrics.jsonl"))
    }


def test_a_sweep_runs_once(tmp_path: Path) -> None:
    experiment = Experiment.parse(TEXT, "sweep")
    first = run(experiment, tmp_path)
    assert len(first) == 12 and not any(done.skipped or done.error for done in first)
    again = run(experiment, tmp_path)
    assert all(done.skipped for done in again)
    assert [done.accuracy for done in again] == [done.accuracy for done in first]
    results = Results.load(tmp_path / "sweep")
    assert results.rules() == ["krum", "comed", "MixTailor"] and results.seeds() == [0, 1]
    assert all(run.complete and len(run.records) == 6 for run in results.runs)


def test_the_yardstick_is_trained_once_for_all_attacks(tmp_path: Path) -> None:
    """It never uses a liar's row, so that its weights are the same bits under any attack."""
    sweep = Experiment.parse(TEXT.replace('["krum", "comed",', '["omniscient",'), "sweep")
    done = run(sweep, tmp_path, only=lambda entry: entry.rule == "omniscient")
    assert len(done) == 2
    results = Results.load(tmp_path / "sweep")
    assert sorted((found.attack, found.seed) for found in results.runs) == [
        (attack, seed) for attack in ("none", "tailored epsilon=0.1") for seed in (0, 1)
    ]
    weights = []
    for attack in ("none", {"name": "tailored", "epsilon": 10.0}):
        config = RunConfig(data="synthetic", model="logistic", rounds=10, rule="omniscient", attack=attack, n=9)
        weights.append(simulation_of(config).run().weights)
    assert torch.equal(*weights)


def test_processes_give_the_bits_of_one_after_the_other(tmp_path: Path) -> None:
    class Heard(list[tuple[int, int]]):
        def begun(self, known: int, whole: int) -> None:
            self.append((known, whole))

        def running(self, title: str, rounds: int) -> None:
            raise AssertionError("runs of other processes tell of no rounds")

        def finished(self, done: Finished, count: int, whole: int) -> None:
            self.append((count, whole))

    heard = Heard()
    experiment = Experiment.parse(TEXT, "sweep")
    run(experiment, tmp_path / "one")
    run(experiment, tmp_path / "two", jobs=2, watch=heard)
    assert final_lines(tmp_path / "one") == final_lines(tmp_path / "two")
    assert heard == [(count, 12) for count in range(13)]


def test_a_failed_run_stops_no_other(tmp_path: Path) -> None:
    """A data set that is not there fails alone, is named with its reason, and is tried again the next time."""
    text = TEXT.replace('data = "synthetic"', 'data = ["mnist", "synthetic"]').replace("[0, 1]", "[0]")
    experiment = Experiment.parse(text, "sweep")
    empty = tmp_path / "empty"
    empty.mkdir()
    # MNIST's files are damaged on purpose, so that nobody tries to download them.
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (empty / f"{name}-ubyte").write_bytes(b"no data")
    done = run(experiment, tmp_path / "out", jobs=2, data=empty)
    failed = [item for item in done if item.error]
    assert len(done) == 12 and len(failed) == 6
    assert all("mnist" in str(item.error).lower() or "idx" in str(item.error) for item in failed)
    missing = Results.load(tmp_path / "out" / "sweep").missing
    assert len(missing) == 6 and all("DataError" in item["error"] for item in missing)
    assert [item.skipped for item in run(experiment, tmp_path / "out", data=empty)].count(True) == 6


def test_experiments_share_their_runs(tmp_path: Path) -> None:
    run(Experiment.parse(TEXT, "one"), tmp_path)
    assert all(done.skipped for done in run(Experiment.parse(TEXT.replace('"MixTailor"', '"M"'), "two"), tmp_path))


def test_unknown_backends_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no backend 'lokky'"):
        run(Experiment.parse(TEXT, "sweep"), tmp_path, jobs=2, backend="lokky")
    with pytest.raises(ConfigError, match="would not repeat"):
        run(Experiment.parse(TEXT, "sweep"), tmp_path, jobs=2, backend="threading")


CLUSTER = """
import sys
from distributed import Client
from mixtailor.experiments import Experiment, run
if __name__ == "__main__":
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None, timeout=120):
        run(Experiment.read(sys.argv[1]), sys.argv[2], jobs=-1, backend="dask")
"""


def test_a_dask_cluster_runs_the_sweep(tmp_path: Path) -> None:
    """The same sweep on a Dask cluster of two local processes, as a program of its own: same results."""
    pytest.importorskip("distributed")
    program, toml = tmp_path / "cluster.py", tmp_path / "sweep.toml"
    program.write_text(CLUSTER)
    toml.write_text(TEXT)
    command = [sys.executable, str(program), str(toml), str(tmp_path / "cluster")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    run(Experiment.read(toml), tmp_path / "here")
    assert final_lines(tmp_path / "cluster") == final_lines(tmp_path / "here")


def test_a_cluster_s_package_is_asked_for(tmp_path: Path) -> None:
    for backend, module in (("dask", "distributed"), ("ray", "ray")):
        try:
            __import__(module)
        except ImportError:
            with pytest.raises(ConfigError, match=f"pip install {module}"):
                run(Experiment.parse(TEXT, "sweep"), tmp_path, jobs=2, backend=backend)


PROGRAM = """
import sys
from mixtailor.experiments import Experiment, run
run(Experiment.read(sys.argv[1]), sys.argv[2])
"""


def test_a_killed_sweep_resumes(tmp_path: Path) -> None:
    """Killed while it runs, a sweep started again makes what is missing and ends like one that was left alone."""
    toml = tmp_path / "sweep.toml"
    toml.write_text(TEXT.replace("rounds = 10", "rounds = 300").replace("evaluate_every = 2", "evaluate_every = 50"))
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(toml), str(tmp_path / "killed")], env=os.environ)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("killed/runs/*/summary.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    experiment = Experiment.read(toml)
    resumed = run(experiment, tmp_path / "killed")
    assert 2 <= sum(done.skipped for done in resumed) < 12
    run(experiment, tmp_path / "whole")
    assert final_lines(tmp_path / "killed") == final_lines(tmp_path / "whole")
