"""Training that does not wait: clients with speeds of their own, stragglers, samples, and an inbox at the server."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from mixtailor._checks import check_count, check_fraction, refuse
from mixtailor.memory import Fresh, Inbox, Keeping, Kept
from mixtailor.mixing import SeededEntropy
from mixtailor.rules import as_rule
from mixtailor.simulation.catalogue import load
from mixtailor.simulation.evaluation import Evaluation
from mixtailor.simulation.gradients import WorkerGradients
from mixtailor.simulation.models import build
from mixtailor.simulation.own import as_dataset
from mixtailor.simulation.partitions import iid
from mixtailor.simulation.server import Server
from mixtailor.simulation.settings import Settings
from mixtailor.simulation.streams import stream
from mixtailor.simulation.workers import Workers

if TYPE_CHECKING:
    from mixtailor.attacks import Attack
    from mixtailor.simulation.workers import Partition

__all__ = ["Asynchronous", "Clock", "Progressed"]


@dataclass(frozen=True, kw_only=True)
class Clock:
    """How long clients take, in units of a typical client's gradient.

    Parameters
    ----------
    spread : float
        Of the speeds: each client's time for a gradient is log-normal about its own pace, and the paces are too, both
        with this deviation of the logarithm.
    stragglers : float
        The share of honest clients that take `slowdown` times as long.
    slowdown : float
        How many times as long stragglers take.
    byzantine : {"fast", "stale"}
        Byzantine clients have an update of the present version in every aggregation, or the oldest that is accepted.

    Examples
    --------
    >>> Clock(stragglers=0.2).byzantine
    'fast'
    """

    spread: float = 0.5
    stragglers: float = 0.0
    slowdown: float = 10.0
    byzantine: Literal["fast", "stale"] = "fast"

    def __post_init__(self) -> None:
        check_fraction("Clock", "stragglers", self.stragglers)
        if not 0.0 <= self.spread < 5.0 or not 1.0 <= self.slowdown < math.inf:
            refuse(f"Clock needs 0 <= spread < 5 and slowdown >= 1 and got {self.spread} and {self.slowdown}.")
        if self.byzantine not in ("fast", "stale"):
            refuse(f"Clock needs byzantine='fast' or 'stale' and got {self.byzantine!r}.")

    def paces(self, workers: int, random: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
        """How long each client takes for a gradient, typically."""
        found = np.exp(self.spread * random.normal(size=workers))
        slow = random.permutation(workers)[: round(self.stragglers * workers)]
        found[slow] *= self.slowdown
        return found


@dataclass(frozen=True)
class Progressed:
    """The result of an asynchronous training.

    Attributes
    ----------
    weights : torch.Tensor
        The weights at the end of training.
    records : list of dict
        One for each evaluation: the server's step, the time on the clock, accuracy and loss.
    staleness : float
        How many versions an honest update was behind when it was used, on average.
    skipped : int
        Aggregations that gave no update.
    diverged : int or None
        The step after which an honest update was not finite any more. Training ends there.
    """

    weights: torch.Tensor
    records: list[dict[str, Any]] = field(repr=False)
    staleness: float
    skipped: int
    diverged: int | None = None

    def accuracy(self, last: int = 3) -> float:
        """The mean accuracy of the last evaluations."""
        return float(np.mean([record["accuracy"] for record in self.records[1:][-last:]]))


class Asynchronous:
    """Clients that send when they are ready, some of them Byzantine, and a server that steps when it has enough.

    Each honest client computes on the model that it was given, sends its update with that version, and begins again
    when there is a newer model. Before each aggregation the Byzantine clients send what the attack makes of the honest
    updates in the inbox, which they see. With a `sample`, only clients drawn for a step compute: the server draws as
    many as that after each of its steps, and waits for all of them. Without an attack everybody is honest.

    Parameters
    ----------
    data, model, rule, attack
        As of a `Simulation`.
    settings : Settings
        n, byzantine, rounds (the server's steps), batch, learning rate, momentum, seed, evaluate_every count.
    when : Fresh or Kept
        What the server aggregates, and when. ``Fresh(n)`` without a sample is synchronous training.
    clock : Clock
        How long clients take.
    sample : int, optional
        How many clients are drawn for each step. A drawn client that is Byzantine sends what the attack makes.
    staleness, oldest, momentum
        As of an `Inbox`. Byzantine clients send what makes their running means those that the attack asks for.
    partition : callable
        How the data are divided among the clients.

    Examples
    --------
    >>> from mixtailor import Comed, Fresh
    >>> from mixtailor.simulation import Settings, synthetic
    >>> settings = Settings(n=9, byzantine=0, rounds=20, batch=8, learning_rate=0.1, evaluate_every=10)
    >>> run = Asynchronous(synthetic(), "logistic", Comed(), settings=settings, when=Fresh(4)).run()
    >>> [record["step"] for record in run.records], run.staleness > 0
    ([0, 10, 20], True)
    """

    def __init__(
        self,
        data: Any,
        model: Any,
        rule: Any,
        attack: Attack | None = None,
        *,
        settings: Settings,
        when: Fresh | Kept,
        clock: Clock | None = None,
        sample: int | None = None,
        staleness: float = 0.0,
        oldest: int | None = None,
        momentum: float = 0.0,
        partition: Partition = iid,
    ) -> None:
        if settings.sends != "gradients" or settings.worker_momentum:
            refuse(
                "Asynchronous training takes gradients, without momentum at the workers: momentum= keeps a running "
                "mean for each worker. Change the settings."
            )
        if sample is not None:
            check_count("Asynchronous", "sample", sample)
            if sample > settings.n:
                refuse(f"Asynchronous needs sample <= n = {settings.n} and got {sample}.")
        self.settings, self.when, self.attack, self.sample = settings, when, attack, sample
        self.clock = clock or Clock()
        data = load(data) if isinstance(data, str) else as_dataset(data)
        rule = as_rule(rule)
        if isinstance(rule, Keeping):
            rule.reset(int(stream(settings.seed, "memory").integers(1 << 63)))
        self.inbox = Inbox(rule, staleness=staleness, oldest=oldest, momentum=momentum, workers=range(settings.n))
        network = build(model, data, seed=settings.seed)
        gradients = WorkerGradients(network, data.loss)
        self._workers = Workers(gradients, data, partition, settings)
        self._server = Server(gradients.layout.flatten(network), settings)
        self._evaluate = Evaluation(network, data)
        drawn = stream(settings.seed, "byzantine").choice(settings.n, settings.byzantine, replace=False)
        self.byzantine = frozenset() if attack is None else frozenset(int(worker) for worker in drawn)
        self._honest = [worker for worker in range(settings.n) if worker not in self.byzantine]
        self._paces = self.clock.paces(settings.n, stream(settings.seed, "speeds"))
        self._times = stream(settings.seed, "times")
        self._entropy = SeededEntropy(settings.seed).spawn("server")
        self._state = None if attack is None else attack.begin()
        self._made = dict.fromkeys(range(settings.n), 0)
        self._held: dict[int, tuple[int, torch.Tensor]] = {}  # the model that each client computes on
        self._events: list[tuple[float, int]] = []
        self._waiting: list[int] = []  # for a newer model
        self._now, self._skipped, self._behind, self._used = 0.0, 0, 0, 0

    def run(self) -> Progressed:
        """Train until the server has made its steps."""
        records, diverged = [self._evaluated()], None
        self._send_out(range(self.settings.n))
        idle = 0
        while self.inbox.version < self.settings.rounds:
            if not self._events:
                idle, self._skipped = idle + 1, self._skipped + 1  # a sample without honest clients
                if idle > 100 or self.sample is None:
                    refuse("Nobody computes, and the rule has too few updates. Lower k, or raise sample.")
                self._send_out(())
                continue
            self._now, worker = heapq.heappop(self._events)
            if not self._arrive(worker):
                diverged = self.inbox.version
                records.append(self._evaluated())
                break
            if self._step():
                idle = 0
                if self.inbox.version % self.settings.evaluate_every == 0 or self.inbox.version == self.settings.rounds:
                    records.append(self._evaluated())
        behind = self._behind / max(1, self._used)
        return Progressed(self._server.weights, records, behind, self._skipped, diverged)

    def _send_out(self, workers: Any) -> None:
        """Give the newest model to honest clients, or to a sample; Byzantine ones need none."""
        if self.sample is not None:
            draw = stream(self.settings.seed, "participation", self.inbox.version, self._skipped)
            chosen = draw.choice(self.settings.n, self.sample, replace=False)
            self._drawn = frozenset(int(worker) for worker in chosen)
            workers = sorted(self._drawn)
            self._events = []
        model = self._server.weights.clone()
        for worker in workers:
            if worker not in self.byzantine:
                self._held[worker] = (self.inbox.version, model)
                took = self._paces[worker] * math.exp(self.clock.spread * self._times.normal())
                heapq.heappush(self._events, (self._now + took, worker))

    def _arrive(self, worker: int) -> bool:
        """Put what a client computed into the inbox. False where it is not finite."""
        version, model = self._held[worker]
        row, _ = self._workers.rows(model, self._made[worker], [worker])
        if not bool(torch.isfinite(row).all()):
            return False
        self._made[worker] += 1
        late = self.inbox.oldest is not None and self.inbox.version - version > self.inbox.oldest
        if not late and version > self.inbox.last(worker):
            self.inbox.put(worker, row[0].clone(), version=version)
        if self.sample is None:
            if self.inbox.version > version:
                self._send_out([worker])
            else:  # a second update of the same version would be refused
                self._waiting.append(worker)
        return True

    def _step(self) -> bool:
        """Aggregate if there is enough; whether there is another version of the model."""
        if self.sample is not None and self._events:
            return False  # the sample is not complete
        self._attack()
        before = self.inbox.stale()
        result = self.inbox.aggregate(self.when, entropy=self._entropy, on_fault="skip", round=self.inbox.version)
        if result is not None and result.update is not None:
            names = [str(name) for name in result.workers or ()]
            used = [before[name] for name in names if int(name) not in self.byzantine]
            self._behind, self._used = self._behind + sum(used), self._used + len(used)
            self._server.step(result.update, self.inbox.version - 1)
            observe = getattr(self._state, "observe", None)
            if observe is not None:
                observe(result.update)
        elif result is not None or self.sample is not None:
            self._skipped += 1
        if self.sample is not None:
            self._send_out(())
        elif result is not None:
            waiting, self._waiting = self._waiting, []
            self._send_out(waiting)
        return result is not None

    def _attack(self) -> None:
        """The Byzantine clients send, where they are asked to, what the attack makes of the honest updates."""
        present = self.byzantine if self.sample is None else self.byzantine & self._drawn
        version = self.inbox.version
        if self.clock.byzantine == "stale" and self.inbox.oldest is not None:
            version = max(0, version - self.inbox.oldest)
        sending = sorted(worker for worker in present if self.inbox.last(worker) < version)
        honest = [self.inbox[name] for name in self.inbox if int(name) not in self.byzantine]
        if not sending or self.attack is None or len(honest) <= 1:
            return
        if not self._ready(len(sending)):
            return
        count = min(len(sending), len(honest) - 1)
        rng = stream(self.settings.seed, "attacker", self.inbox.version)
        made = self.attack.craft(torch.stack(honest), count, state=self._state, rng=rng).rows
        for place, worker in enumerate(sending):
            self.inbox.put(worker, self._aimed(worker, made[min(place, count - 1)]), version=version)

    def _aimed(self, worker: int, row: torch.Tensor) -> torch.Tensor:
        """What a worker sends for its row to become this one."""
        beta = self.inbox.momentum
        return (row - beta * self.inbox[worker]) / (1.0 - beta) if beta and worker in self.inbox else row.clone()

    def _ready(self, more: int) -> bool:
        """Whether the server aggregates once `more` updates arrive: nobody sends before that, and sees the most."""
        return len(self.inbox.fresh()) + more >= self.when.k

    def _evaluated(self) -> dict[str, Any]:
        accuracy, loss = self._evaluate(self._server.weights)
        return {"step": self.inbox.version, "time": self._now, "accuracy": accuracy, "loss": loss}
