"""A run that was stopped anywhere and started again ends with the same bits."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mixtailor import CenteredClipping, Comed, Krum, MixTailor, Resampling, TrimmedMean
from mixtailor.attacks import (
    ALIE,
    ROP,
    Drift,
    ExpectedDrift,
    LabelFlip,
    Memory,
    Mimic,
    RandomEpsilon,
    Roles,
    Schedule,
    Split,
    Tailored,
)
from mixtailor.simulation import Settings, Simulation, checkpoint, synthetic
from mixtailor.simulation.records import Records, read_records


class Stopped(Exception):
    """Raised in place of a power cut."""


class StopAt:
    def __init__(self, round: int) -> None:
        self.stop = round

    def round(self, done: int, drawn: str) -> None:
        if done == self.stop:
            raise Stopped

    def evaluated(self, record: object) -> None:
        pass


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "a pool": lambda: {"rule": MixTailor([Krum(f=2), Comed(), TrimmedMean(f=2)]), "attack": RandomEpsilon()},
    "resampling": lambda: {"rule": Resampling(repeats=2) >> TrimmedMean(f=1), "attack": ALIE(z=1.0)},
    "memory of answers": lambda: {"rule": CenteredClipping(tau=1.0), "attack": ROP()},
    "memory of workers": lambda: {"rule": Comed(), "attack": Mimic(rounds=15), "worker_momentum": 0.9},
    "labels, changing": lambda: {"rule": Comed(), "attack": LabelFlip(), "identities": "changing"},
    "memories inside a memory": lambda: {
        "rule": Comed(),
        "attack": Schedule(Roles(Split(Drift(), every=3), ROP()), start=4, flip=2),
        "identities": 6,
    },
    "a plan": lambda: {"rule": TrimmedMean(f=2), "attack": ExpectedDrift(TrimmedMean(f=2), horizon=5, budget=8)},
    "models": lambda: {
        "rule": Comed(),
        "attack": Tailored(epsilon=0.5),
        "sends": "models",
        "local_steps": 2,
        "participation": 0.7,
    },
}


def simulation(folder: Path | None, progress: Any = None, **given: Any) -> Simulation:
    rule, attack = given.pop("rule"), given.pop("attack")
    settings = Settings(n=9, byzantine=2, rounds=20, batch=8, learning_rate=0.05, evaluate_every=4, **given)
    return Simulation(
        synthetic(), "mlp", rule, attack, settings=settings, folder=folder, checkpoint_seconds=0.0, progress=progress
    )


def timeless(records: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in record.items() if "seconds" not in name} for record in records]


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_anywhere_a_run_ends_the_same(kind: str, tmp_path: Path) -> None:
    """Stopped after rounds 7, 8 and 13, before their checkpoints, three times over: same weights, same records."""
    whole = simulation(None, **KINDS[kind]()).run()
    for stop in (7, 8, 13):
        with pytest.raises(Stopped):
            simulation(tmp_path, StopAt(stop), **KINDS[kind]()).run()
    resumed = simulation(tmp_path, **KINDS[kind]())
    assert resumed.done == 12
    outcome = resumed.run()
    assert torch.equal(outcome.weights, whole.weights)
    assert timeless(outcome.records) == timeless(whole.records) == timeless(read_records(tmp_path / "metrics.jsonl"))


def test_a_complete_run_is_not_repeated(tmp_path: Path) -> None:
    first = simulation(tmp_path, **KINDS["a pool"]()).run()
    again = simulation(tmp_path, StopAt(1), **KINDS["a pool"]())
    assert again.done == 20
    assert torch.equal(again.run().weights, first.weights)
    with np.load(tmp_path / "weights.npz") as arrays:
        assert sum(arrays[name].size for name in arrays.files) == len(first.weights)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    simulation(tmp_path, **KINDS["a pool"]()).run()
    with pytest.raises(ValueError, match="other settings"):
        simulation(tmp_path, **KINDS["memory of answers"]())


def test_a_damaged_checkpoint_says_so(tmp_path: Path) -> None:
    simulation(tmp_path, **KINDS["a pool"]()).run()
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="cannot be read"):
        simulation(tmp_path, **KINDS["a pool"]())


def test_a_memory_that_cannot_be_kept_starts_again(tmp_path: Path) -> None:
    """No checkpoint is written, with a warning, and the run that starts again ends the same."""

    class Strange(RandomEpsilon):
        def begin(self) -> Any:
            return Memory(notes={"what": object()})

    given = {"rule": Comed(), "attack": Strange()}
    with pytest.raises(Stopped), pytest.warns(UserWarning, match="no checkpoints"):
        simulation(tmp_path, StopAt(9), **given).run()
    assert not (tmp_path / "checkpoint.npz").exists()
    with pytest.warns(UserWarning, match="no checkpoints"):
        outcome = simulation(tmp_path, **given).run()
    assert torch.equal(outcome.weights, simulation(None, **given).run().weights)
    assert len(read_records(tmp_path / "metrics.jsonl")) == 6


PROGRAM = """
import sys, torch
torch.set_num_threads(1)
from mixtailor import Comed, Krum, MixTailor
from mixtailor.attacks import ROP
from mixtailor.simulation import Settings, Simulation, digits
settings = Settings(n=9, byzantine=2, rounds=int(sys.argv[2]), batch=8, learning_rate=0.05, evaluate_every=10)
rule = MixTailor([Krum(f=2), Comed()])
Simulation(digits(), "mlp", rule, ROP(), settings=settings, folder=sys.argv[1], checkpoint_seconds=0.05).run()
"""


def test_kill_9_and_resume(tmp_path: Path) -> None:
    """Killed without a chance to say good-bye, in a process of its own; both runs' files hold the same weights."""
    run = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen([*run, str(killed), "400"], env=environment)
    deadline = time.monotonic() + 120
    while not (killed / "checkpoint.npz").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (killed / "checkpoint.npz").exists() and not (killed / "weights.npz").exists()
    for folder in (killed, whole):
        subprocess.run([*run, str(folder), "400"], check=True, env=environment)
    with np.load(killed / "weights.npz") as one, np.load(whole / "weights.npz") as two:
        assert all(np.array_equal(one[name], two[name]) for name in two.files)
    assert timeless(read_records(killed / "metrics.jsonl")) == timeless(read_records(whole / "metrics.jsonl"))


def test_a_checkpoint_keeps_every_kind_of_value(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    random.integers(10)
    memory = Memory(
        3, torch.arange(3.0), {"direction": np.ones(2, np.float32), "worker": 4, "odd": {2: (None, {1, 2})}}
    )
    state = {"memory": memory, "random": random, "scalar": np.float32(0.1), "infinite": float("inf")}
    checkpoint.save(tmp_path / "state.npz", state)
    kept = checkpoint.load(tmp_path / "state.npz")
    assert kept["random"].integers(1000) == random.integers(1000)
    assert kept["scalar"] == np.float32(0.1) and kept["infinite"] == float("inf")
    assert isinstance(kept["memory"], Memory) and kept["memory"].notes["odd"] == {2: (None, {1, 2})}
    assert torch.equal(kept["memory"].previous, memory.previous)
    assert kept["memory"].notes["direction"].dtype == np.float32


@pytest.mark.parametrize("value", [object(), np.array([object()]), StopAt(1)])
def test_a_checkpoint_refuses_what_it_has_no_form_for(value: object, tmp_path: Path) -> None:
    with pytest.raises(checkpoint.CannotKeep):
        checkpoint.save(tmp_path / "state.npz", {"value": value})
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_builds_no_classes_of_others(tmp_path: Path) -> None:
    """A forged file that names a class from elsewhere is refused, and nothing of it is imported."""
    path = tmp_path / "state.npz"
    forged = b'{"kind":"dict","of":[["a",{"kind":"object","of":["antigravity","Any",{}]}]]}'
    np.savez(path, state=np.frombuffer(forged, np.uint8))
    with pytest.raises(ValueError, match="names a class of antigravity"):
        checkpoint.load(path)
    assert "antigravity" not in sys.modules


def test_records_go_back_to_the_checkpoint(tmp_path: Path) -> None:
    """What was written after the checkpoint is cut off when the run comes to something else, half a line included."""
    path = tmp_path / "metrics.jsonl"
    records = Records(path)
    records.write({"round": 0})
    length = records.length
    records.write({"round": 5})
    with path.open("ab") as file:
        file.write(b'{"round": 1')
    assert [record["round"] for record in read_records(path)] == [0, 5]
    again = Records(path, length)
    assert [record["round"] for record in again] == [0]
    again.write({"round": 4})
    assert path.read_bytes() == b'{"round":0}\n{"round":4}\n'
    with pytest.raises(ValueError, match="shorter"):
        Records(path, 1_000)


def test_a_record_that_was_reported_stays_until_it_is_made_again(tmp_path: Path) -> None:
    """A run that is killed twice between two checkpoints has every evaluation that anybody was told of."""
    path = tmp_path / "metrics.jsonl"
    records = Records(path)
    for round in (0, 1, 2):
        records.write({"round": round, "seconds": 1.0})
    length = path.read_bytes().index(b"\n") + 1
    with path.open("ab") as file:
        file.write(b'{"round":3,"sec')
    again = Records(path, length)
    assert [record["round"] for record in read_records(path)] == [0, 1, 2]
    again.write({"round": 1, "seconds": 9.0})
    assert [record["round"] for record in read_records(path)] == [0, 1, 2]
    again.write({"round": 7, "seconds": 9.0})
    assert [record["round"] for record in read_records(path)] == [0, 1, 7]
    assert again.length == path.stat().st_size


@pytest.mark.parametrize("line", [b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_a_line_that_is_no_record_is_named(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"round":0}\n' + line + b"\n")
    with pytest.raises(ValueError, match=r"Line 2 of .*metrics.jsonl is no record"):
        read_records(path)
