"""What is killed: training, a sweep, an aggregation of files, an audited run. Each can be started again."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import json
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

import mixtailor as mt
from mixtailor.attacks import RandomEpsilon
from mixtailor.cli import aggregate
from mixtailor.experiments import Experiment
from mixtailor.experiments import run as run_experiment
from mixtailor.experiments.running import Finished
from mixtailor.mixing.audit import AuditTrail, verify
from mixtailor.simulation import Settings, Simulation, checkpoint, synthetic
from mixtailor.simulation.records import read_records

Tell = Callable[[Any], None]


class Victim(ABC):
    """Work that survives its process.

    `work` does what is left to do in a folder and tells what is done as soon as a caller would know it; the last thing
    it tells is the whole result. `broken` looks at what a kill left behind. Both must hold after any number of kills.
    """

    name: ClassVar[str]

    @abstractmethod
    def work(self, folder: Path, seed: int, tell: Tell) -> None:
        """Start, or go on, and run to the end."""

    @abstractmethod
    def broken(self, folder: Path, seed: int, told: list[Any]) -> Iterator[str]:
        """What is wrong with the folder, given what was told before the kill."""

    def same(self, told: Any, undisturbed: Any) -> bool:
        """Whether a result is that of an undisturbed run."""
        return bool(told == undisturbed)


def timeless(records: Any) -> list[Any]:
    """Records without the times that things took."""
    return [{name: value for name, value in record.items() if "seconds" not in name} for record in records]


class Training(Victim):
    """A simulation that writes a checkpoint every round."""

    name = "simulation"

    def work(self, folder: Path, seed: int, tell: Tell) -> None:
        rule = mt.MixTailor([mt.Krum(f=1), mt.Comed(), mt.TrimmedMean(f=1)])
        settings = Settings(n=7, byzantine=1, rounds=40, batch=8, learning_rate=0.05, evaluate_every=5, seed=seed)
        simulation = Simulation(
            synthetic(), "logistic", rule, RandomEpsilon(), settings=settings, folder=folder, checkpoint_seconds=0.0,
            progress=_Heard(tell),
        )  # fmt: skip
        outcome = simulation.run()
        digest = hashlib.sha256(outcome.weights.numpy().tobytes()).hexdigest()
        tell({"weights": digest, "records": timeless(json.loads(json.dumps(outcome.records)))})

    def broken(self, folder: Path, seed: int, told: list[Any]) -> Iterator[str]:
        if (folder / "metrics.jsonl").exists():
            kept = {record["round"]: record for record in read_records(folder / "metrics.jsonl")}
            for round, accuracy in (item for item in told if isinstance(item, list)):
                if round not in kept or kept[round]["accuracy"] != accuracy:
                    yield f"the evaluation of round {round} was reported and is not in the file"
        for path in folder.glob("checkpoint*"):
            checkpoint.load(path)


class _Heard:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def round(self, done: int, drawn: str) -> None:
        """Nothing is promised of a round before its checkpoint."""

    def evaluated(self, record: Any) -> None:
        self._tell([record["round"], record["accuracy"]])


class _Told:
    """Tells of each run of a sweep when it is done."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell

    def begun(self, known: int, whole: int) -> None: ...

    def running(self, title: str, rounds: int) -> None: ...

    def finished(self, done: Finished, count: int, whole: int) -> None:
        self.tell([done.hash, done.error])


class Sweep(Victim):
    """Six runs of an experiment."""

    name = "sweep"
    TEXT = (
        'title = "x"\n'
        'run = {{data = "synthetic", model = "logistic", rounds = 12, evaluate_every = 4, seed = [{0}, {1}], '
        'rule = ["krum", "comed", "trimmed_mean"], attack = "alie"}}'
    )

    def work(self, folder: Path, seed: int, tell: Tell) -> None:
        experiment = Experiment.parse(self.TEXT.format(seed, seed + 1))
        done = run_experiment(experiment, folder, watch=_Told(tell))
        failed = [finished.error for finished in done if finished.error is not None]
        if failed:
            raise OSError(failed[0])
        tell({finished.hash: self._result(folder, finished.hash) for finished in done})

    def _result(self, folder: Path, name: str) -> Any:
        home = folder / "runs" / name
        summary = json.loads((home / "summary.json").read_text())
        return [summary["accuracy"], timeless(read_records(home / "metrics.jsonl"))]

    def broken(self, folder: Path, seed: int, told: list[Any]) -> Iterator[str]:
        for index in folder.glob("*/experiment.json"):
            json.loads(index.read_text())
        for name, error in (item for item in told if isinstance(item, list)):
            if error is None and not (folder / "runs" / name / "summary.json").exists():
                yield f"run {name} was reported and has no summary"


class Files(Victim):
    """``mixtailor aggregate``, twelve times over one answer: whole, and never older than what was reported."""

    name = "aggregate"
    RULES = ("comed", "krum", "trimmed_mean")

    def work(self, folder: Path, seed: int, tell: Tell) -> None:
        paths = _files(seed)
        for step in range(12):
            with contextlib.redirect_stdout(io.StringIO()):
                aggregate.command(paths, folder / "out.npy", rule=self.RULES[step % 3], f=1)
            tell([step])
        tell(hashlib.sha256((folder / "out.npy").read_bytes()).hexdigest())

    def broken(self, folder: Path, seed: int, told: list[Any]) -> Iterator[str]:
        steps = [item[0] for item in told if isinstance(item, list)]
        if not (folder / "out.npy").exists():
            if steps:
                yield "an answer was reported and is not there"
            return
        rows = np.stack([np.load(path) for path in _files(seed)])
        answers = [mt.Comed()(rows), mt.Krum(1)(rows), mt.TrimmedMean(1)(rows)]
        found = np.load(folder / "out.npy", allow_pickle=False)
        which = [k for k, answer in enumerate(answers) if np.array_equal(found, answer)]
        if not which:
            yield "the answer on disk is none that was ever made"
        elif steps and which[0] not in {steps[-1] % 3, (steps[-1] + 1) % 3, 0}:  # 0 is where the next life begins
            yield "the answer on disk is older than what was reported"


@cache
def _files(seed: int) -> list[Path]:
    """What is aggregated, in a folder that no kill and no full disk touches."""
    folder = Path(tempfile.mkdtemp(prefix="kills-inputs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rows = np.random.default_rng(seed).normal(size=(6, 20_000)).astype(np.float32)
    paths = [folder / f"{row}.npy" for row in range(len(rows))]
    for path, row in zip(paths, rows, strict=True):
        np.save(path, row)
    return paths


class Audited(Victim):
    """Thirty audited draws, and the closing."""

    name = "audit"
    POOL = ("Krum(f=1)", "Comed()", "TrimmedMean(f=1)")
    ROUNDS = 30

    def work(self, folder: Path, seed: int, tell: Tell) -> None:
        path = folder / "run.audit"
        if not (path.exists() and verify(path).closed):
            self._draw(path, seed, tell)
        report = verify(path)
        tell({"ok": report.ok, "draws": len({draw.round for draw in report.draws}), "closed": report.closed})

    def _draw(self, path: Path, seed: int, tell: Tell) -> None:
        trail = AuditTrail.open(path, self.POOL)
        try:
            tell(["commitment", trail.commitment])
            if not trail._secret.revealed:  # a kill while closing leaves nothing else to do
                for round in range(self.ROUNDS):
                    draw = trail.draw(self._digests(seed, round), round=round, pool=self.POOL)
                    tell([round, draw.index, draw.key.hex()])
            trail.close()
        finally:
            trail.release()

    def _digests(self, seed: int, round: int) -> dict[str, bytes]:
        return {name: hashlib.sha256(f"{seed} {round} {name}".encode()).digest() for name in ("ann", "bob", "cyn")}

    def broken(self, folder: Path, seed: int, told: list[Any]) -> Iterator[str]:
        known: dict[Any, Any] = {}
        for first, *rest in (item for item in told if isinstance(item, list)):
            if known.setdefault(first, rest) != rest:
                yield f"{first} was {known[first]} and is {rest} after a kill"
        path = folder / "run.audit"
        if not path.exists():
            if known:
                yield "the log was reported and is gone"
            return
        text = path.read_bytes().decode()
        for round in (key for key in known if isinstance(key, int)):
            if f'"round":{round},' not in text.replace(" ", ""):
                yield f"round {round} was reported and is not in the log"


VICTIMS: dict[str, Victim] = {victim.name: victim for victim in (Training(), Sweep(), Files(), Audited())}
torch.set_num_threads(1)  # what is killed is forked, and forks have one thread
