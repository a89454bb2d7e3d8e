"""Training under attack: the rounds."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from mixtailor._files import atomic_write
from mixtailor.memory import Keeping
from mixtailor.mixing import MixTailor, SeededEntropy
from mixtailor.rules import as_rule
from mixtailor.simulation import checkpoint
from mixtailor.simulation.adversary import Adversary, Cast, placed
from mixtailor.simulation.catalogue import load
from mixtailor.simulation.description import describe
from mixtailor.simulation.evaluation import Evaluation
from mixtailor.simulation.frames import Filming, Frames
from mixtailor.simulation.gradients import WorkerGradients
from mixtailor.simulation.models import build
from mixtailor.simulation.outcome import TRACKED, Outcome
from mixtailor.simulation.own import as_dataset, check_objects
from mixtailor.simulation.partitions import iid
from mixtailor.simulation.progress import Silent
from mixtailor.simulation.recorded_states import Recorder, recorded_rounds, write_state
from mixtailor.simulation.records import Laps, Records, Tally
from mixtailor.simulation.rollback import Rollback
from mixtailor.simulation.server import Server
from mixtailor.simulation.settings import Settings
from mixtailor.simulation.streams import stream
from mixtailor.simulation.workers import Workers
from mixtailor.theory.robust_tailor import RobustTailor

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from mixtailor.attacks import Attack
    from mixtailor.rules import Rule
    from mixtailor.simulation.data import Dataset
    from mixtailor.simulation.gradients import Loss
    from mixtailor.simulation.progress import Progress
    from mixtailor.simulation.workers import Partition
    from mixtailor.theory import State
    from mixtailor.trackers import Tracker

__all__ = ["Simulation"]


class Simulation:
    r"""n workers, some of them Byzantine, train one network through one rule.

    In each round the honest workers compute their updates together, the attack makes the Byzantine updates from them,
    *then* the rule is drawn and applied, and the server steps. Each use of chance has a stream of its own, spawned from
    the seed: the server's draw, the attacker, the order of the data, dropout, who is Byzantine. Runs that differ in
    rule or attack alone share data order, dropout and initial weights.

    Parameters
    ----------
    data : Dataset, str or tuple
        A data set, its name or file (see `mixtailor.simulation.load`), or arrays (see `as_dataset`).
    model : str, torch.nn.Module or callable
        A name of `mixtailor.simulation.MODELS`, with initial weights from the seed, or your own network as it is; see
        `mixtailor.simulation.build`.
    rule : Rule or callable
        Any, and any function on the (n, d) tensor of all updates. A MixTailor without a source of its own draws from a
        stream of the seed, which is for experiments only. A `Memory` is reset, and saved with the checkpoints; an
        attack that has it for its target knows its content. A `RobustTailor` finds its probabilities in each round on
        updates of as many simulated workers as take part, which the server computes from its own `root` examples.
    attack : Attack, optional
        What the Byzantine workers do; without one they send what is correct.
    settings : Settings
        Who takes part, how the server steps, and how long.
    partition : callable
        Who holds which examples; iid by default.
    folder : path, optional
        Where records, checkpoints and the last weights go. A run that finds its checkpoint there resumes from it.
    loss : callable, optional
        A mean over a batch. By default the cross-entropy, or the squared error where labels are real numbers.
    checkpoint_seconds : float
        How much time passes between checkpoints.
    progress : Progress, optional
        Callbacks for rounds and evaluations.
    tracker : Tracker, optional
        Receives the numbers of each evaluation: TensorBoard, MLflow or Weights & Biases by
        `mixtailor.trackers`. It stays open.
    states, resamples : int
        At how many evaluations gradients are recorded for `mixtailor.theory.certify`, and how often at each. They go to
        ``states`` in the folder, where `mixtailor.simulation.read_states` finds them.
    frames : int or Filming
        How many rounds to record for the player of the report: the updates in two dimensions, and what each rule makes
        of them. They go to ``frames.jsonl`` in the folder, a few kilobytes each.
    rollback : Rollback, optional
        When the server steps back; never by default.

    Examples
    --------
    >>> from mixtailor import Krum
    >>> from mixtailor.attacks import Tailored
    >>> from mixtailor.simulation import Settings, Simulation, synthetic
    >>> settings = Settings(n=9, byzantine=2, rounds=20, batch=8, learning_rate=0.1, evaluate_every=10)
    >>> outcome = Simulation(synthetic(), "logistic", Krum(f=2), Tailored(epsilon=10.0), settings=settings).run()
    >>> [record["round"] for record in outcome.records]
    [0, 10, 20]

    Notes
    -----
    A rule that finds more faulty updates than it tolerates skips the round, and the records count it. Where no honest
    update is finite any more, training has diverged: the weights stay as they are, and so does their accuracy.
    """

    def __init__(
        self,
        data: Dataset | str | tuple[Any, ...],
        model: str | nn.Module | Callable[..., nn.Module],
        rule: Rule | RobustTailor | Callable[[Any], Any],
        attack: Attack | None = None,
        *,
        settings: Settings | None = None,
        partition: Partition = iid,
        folder: str | os.PathLike[str] | None = None,
        loss: Loss | None = None,
        checkpoint_seconds: float = 10.0,
        progress: Progress | None = None,
        tracker: Tracker | None = None,
        states: int = 0,
        resamples: int = 10,
        frames: int | Filming = 0,
        rollback: Rollback | None = None,
    ) -> None:
        self.settings = settings = settings or Settings()
        self._tailor = rule if isinstance(rule, RobustTailor) else None
        data = load(data) if isinstance(data, str) else as_dataset(data)
        rule = as_rule(rule) if self._tailor is None else MixTailor(self._tailor.pool, entropy=self._tailor.entropy)
        check_objects(attack, partition)
        if isinstance(rule, Keeping):  # runs repeat, and do not learn from one another
            rule.reset(int(stream(settings.seed, "memory").integers(1 << 63)))
        self.rule, self.folder = rule, None if folder is None else Path(folder)
        network = build(model, data, seed=settings.seed)
        self._entropy = _source(rule, settings.seed)
        self._adversary = Adversary(attack, settings)
        self._cast = Cast(settings)
        gradients = WorkerGradients(network, loss or data.loss)
        self.layout = gradients.layout
        self._workers = Workers(
            gradients,
            data,
            partition,
            settings,
            without_data=self._cast.fixed if settings.spread == "honest" else (),
            flip=getattr(attack, "labels", None) if attack is not None and attack.on_labels else None,
            simulated=0 if self._tailor is None else settings.taking_part,
        )
        self._recorded = recorded_rounds(settings, states)
        self._recorder = Recorder(gradients, self._workers, self._cast.fixed, resamples=resamples) if states else None
        self._states: list[State] = []
        filming = frames if isinstance(frames, Filming) else Filming(frames)
        self.frames = Frames(settings, rule, filming, self.folder)
        self._server = Server(self.layout.flatten(network), settings)
        self._evaluate = Evaluation(network, data)
        self._asks = rule.asks().reference is not None
        self._trusted = rule.asks().reference == "trusted"  # an update that the server computes itself
        self._progress: Progress = progress or Silent()
        self._checkpoint_seconds = checkpoint_seconds
        self._tracker = tracker
        more = () if rollback is None else (rollback.reset(),)
        self._identity = repr((settings, self._tailor or rule, attack, data.name, len(data), self.layout, *more))
        self._rollback = rollback
        self._own_batch = self._trusted or (rollback is not None and rollback.source == "held-out")
        self._round, self._tally = 0, Tally()
        self._called: set[str] = set()  # rules that have been called in this process, which compiled what they need
        self._diverged: int | None = None
        self._previous: torch.Tensor | None = None
        self._room: torch.Tensor | None = None
        self._records = self._resumed()
        if self.folder is not None:
            describe(self.folder, settings, self._tailor or rule, attack, data.name, partition)

    @property
    def done(self) -> int:
        """How many rounds are behind."""
        return self._round

    def run(self) -> Outcome:
        """Train to the end, from the start or from where a checkpoint was made."""
        saved = time.monotonic()
        with warnings.catch_warnings():
            # An iteration that stopped at its cap gives its best value; thousands of rounds need not each say so.
            warnings.simplefilter("ignore", RuntimeWarning)
            if not len(self._records):
                self._evaluated()
            while self._round < self.settings.rounds:
                drawn = self._one_round()
                self._round += 1
                self._progress.round(self._round, drawn)
                last = self._round == self.settings.rounds
                if self._evaluates(self._round):
                    self._evaluated()
                if self.folder is not None and (last or time.monotonic() - saved >= self._checkpoint_seconds):
                    self._save()
                    saved = time.monotonic()
        return Outcome(self._server.weights, list(self._records), self._diverged, self._states)

    def _evaluates(self, done: int) -> bool:
        return done == self.settings.rounds or done % self.settings.evaluate_every == 0

    def _one_round(self) -> str:
        if self._diverged is not None:
            self._tally.rounds += 1
            return "diverged"
        round, tally, watch = self._round, self._tally, Laps(self._tally)
        workers, byzantine = self._cast(round)
        malicious = set(byzantine)
        honest = [worker for worker in workers if worker not in malicious]
        own = list(byzantine) if self._computes_own() else []
        simulated = self._workers.simulated  # the server's own: updates like those of the workers, and one to trust
        computing = [*honest, *own, *simulated, *([self.settings.n] if self._own_batch else [])]
        # Where honest workers alone compute, their updates are made in the matrix that the rule will read.
        room = None if len(computing) > len(honest) or not byzantine else self._room_for(len(workers))
        rows, losses = self._workers.rows(self._server.weights, round, computing, poisoned=own, out=room)
        correct, previous = rows[: len(honest)], rows[-1] if self._trusted else self._previous
        reference = previous if self._asks else None  # a rule that asks for none is spared its conversion
        rule = self._rule_of(rows[len(honest) + len(own) :][: len(simulated)])
        tally.losses += float(losses[: len(honest)].mean())
        watch.lap("gradients")
        if self._rollback is not None:
            f = self.rule.tolerates(len(workers))
            if self._rollback.after(losses, len(honest), len(byzantine), f, self._server):
                return tally.stepped_back()
        sound = bool(torch.isfinite(correct.sum()))
        if not sound and int(torch.isfinite(correct).all(1).sum()) < 2:
            self._diverged = round
            tally.rounds += 1
            return "diverged"
        facts: Any = {}
        if byzantine:
            mine = rows[len(honest) : len(honest) + len(own)] if own else None
            model = self._server.weights if self.settings.sends == "models" else None
            names = (honest, byzantine)
            wrong, facts = self._adversary.rows(
                correct,
                mine,
                len(byzantine),
                round,
                model,
                names,
                sound=sound,
                reference=reference,
            )
            correct = placed(workers, byzantine, correct, wrong, room)
        watch.lap("attack")
        shot = self.frames.shoot(round, correct, workers, byzantine, self._server.weights, previous)
        watch.lap("frames")
        result = rule.aggregate(
            correct,
            workers=workers,
            reference=reference,
            honest=[row for row, worker in enumerate(workers) if worker not in malicious],
            round=round,
            entropy=self._entropy,
            on_fault="skip",
        )
        name = repr(result.rule)
        tally.timed(name, watch.lap("aggregation"), first=name not in self._called)
        self._called.add(name)
        # One round of each evaluation reports all distances: a reading that costs less than the evaluation itself.
        asked = self._evaluates(round + 1)
        tally.add(result, workers, byzantine, facts, correct if asked else None)
        watch.lap("reputation")
        if result.update is not None:
            seen = result.update - self._server.weights if self.settings.sends == "models" else result.update
            self._server.step(result.update, round)
            self._previous = result.update
            self._adversary.observe(seen)
        if shot is not None:
            shot.finish(result, self._server.weights, self._server.learning_rate(round))
        watch.lap("step")
        return name

    def _room_for(self, rows: int) -> torch.Tensor:
        if self._room is None or len(self._room) != rows:
            weights = self._server.weights
            self._room = torch.empty(rows, self.layout.d, dtype=self.layout.dtype, device=weights.device)
        return self._room

    def _rule_of(self, simulated: torch.Tensor) -> Rule:
        """The rule of this round, from the updates that the server computed itself."""
        if self._tailor is None or not bool(torch.isfinite(simulated.sum())):
            return self.rule
        if self.settings.sends == "models":
            simulated = simulated - self._server.weights
        return self._tailor.for_round(simulated, rng=stream(self.settings.seed, "simulated", self._round))

    def _computes_own(self) -> bool:
        """Whether Byzantine workers compute too: for an attack that asks, or to keep a momentum they will need."""
        changing = self.settings.spell is not None and self._workers.momenta is not None
        return self._adversary.needs_own or changing

    def _evaluated(self) -> None:
        started = time.perf_counter()
        known = list(self._records)
        if self._diverged is not None and known and known[-1].get("diverged") is not None:
            accuracy, loss = known[-1]["accuracy"], known[-1]["loss"]
        else:
            accuracy, measured = self._evaluate(self._server.weights)
            loss = measured if np.isfinite(measured) else None
        self._tally.seconds["evaluation"] += time.perf_counter() - started
        record = {
            "round": self._round,
            "accuracy": accuracy,
            "loss": loss,
            "learning_rate": self._server.learning_rate(max(0, self._round - 1)),
            "diverged": self._diverged,
            **self._tally.plain(),
        }
        self._tally = Tally()
        self._record()
        self._records.write(record)
        self._progress.evaluated(record)
        if self._tracker is not None:
            self._tracker.log(self._round, {name: record[name] for name in TRACKED if record[name] is not None})

    def _record(self) -> None:
        if self._recorder is None or self._round not in self._recorded or self._diverged is not None:
            return
        state = self._recorder(self._server.weights, self._round)
        if state is not None and self.folder is not None:
            write_state(self.folder / "states", state)
        elif state is not None:
            self._states.append(state)

    def _save(self) -> None:
        assert self.folder is not None
        state = {
            "identity": self._identity,
            "round": self._round,
            "diverged": self._diverged,
            "weights": self._server.weights,
            "velocity": self._server.velocity,
            "momenta": self._workers.momenta,
            "previous": self._previous,
            "memory": self._adversary.memory,
            "remembered": self.rule.state() if isinstance(self.rule, Keeping) else None,
            "rollback": None if self._rollback is None else self._rollback.state(),
            "entropy": self._entropy.state(),
            "tally": self._tally.state(),
            "records": self._records.length,
        }
        try:
            checkpoint.save(self.folder / "checkpoint.npz", state)
        except checkpoint.CannotKeep as error:
            # Runs repeat bit for bit, so that one without checkpoints starts again and ends the same.
            self._checkpoint_seconds = float("inf")
            warnings.warn(f"This run keeps no checkpoints, and would start again: {error}", UserWarning, stacklevel=3)
        if self._round == self.settings.rounds:
            with atomic_write(self.folder / "weights.npz") as file:
                arrays: Any = {
                    name: value.cpu().numpy() for name, value in self.layout.views(self._server.weights).items()
                }
                np.savez(file, **arrays)

    def _resumed(self) -> Records:
        if self.folder is None:
            return Records(None)
        path = self.folder / "checkpoint.npz"
        if not path.exists():
            return Records(self.folder / "metrics.jsonl")
        state = checkpoint.load(path)
        if state["identity"] != self._identity:
            raise ValueError(
                f"{path} belongs to a run with other settings, rule, attack or data. Give another folder, or remove it."
            )
        where = self._server.weights.device
        self._server.weights = state["weights"].to(where)
        self._server.velocity = None if state["velocity"] is None else state["velocity"].to(where)
        self._workers.momenta = None if state["momenta"] is None else state["momenta"].to(where)
        self._previous = None if state["previous"] is None else state["previous"].to(where)
        self._round, self._diverged = state["round"], state["diverged"]
        self._adversary.memory = state["memory"]
        if isinstance(self.rule, Keeping):
            self.rule.restore(state["remembered"])
        if self._rollback is not None:
            self._rollback.restore(state["rollback"], where)
        self._entropy.restore(state["entropy"])
        self._tally = Tally.restored(state["tally"])
        return Records(self.folder / "metrics.jsonl", state["records"])


def _source(rule: Rule, seed: int) -> SeededEntropy:
    """The rule's own source where it has one that repeats, so that an attacker can be given it; else a stream."""
    if isinstance(rule, MixTailor) and isinstance(rule.entropy, SeededEntropy):
        return rule.entropy
    return SeededEntropy(seed).spawn("server")
