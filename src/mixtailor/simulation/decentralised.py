"""Training without a server: each worker steps, and mixes with its neighbours by a rule that it draws for itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mixtailor._checks import check_positive, refuse
from mixtailor.attacks import Attack
from mixtailor.memory import Keeping
from mixtailor.mixing import SeededEntropy
from mixtailor.rules import as_rule
from mixtailor.simulation.catalogue import load
from mixtailor.simulation.evaluation import Evaluation
from mixtailor.simulation.gradients import WorkerGradients
from mixtailor.simulation.models import build
from mixtailor.simulation.own import as_dataset
from mixtailor.simulation.partitions import iid
from mixtailor.simulation.progress import Silent
from mixtailor.simulation.records import LAST, Records, Tally, last_trained
from mixtailor.simulation.streams import stream
from mixtailor.simulation.topologies import Graph, topology
from mixtailor.simulation.workers import Workers
from mixtailor.theory import GossipCondition, fiedler_vector, gossip_condition

if TYPE_CHECKING:
    import os

    from mixtailor.rules import Rule
    from mixtailor.simulation.progress import Progress
    from mixtailor.simulation.settings import Settings
    from mixtailor.simulation.workers import Partition

__all__ = ["Bottleneck", "Decentralised", "Networked"]


@dataclass(frozen=True)
class Bottleneck:
    r"""Byzantine workers that drive the two sides of the graph's bottleneck apart.

    To an honest neighbour i they send :math:`x_i + \epsilon \, v_i D / |v_i|`, with the Fiedler vector v of the honest
    workers' graph and the disagreement along it, :math:`D = \sum_j v_j x_j`: each side is sent where it already is.

    Parameters
    ----------
    epsilon : float
        The length of the push, in units of D.

    Examples
    --------
    >>> Bottleneck(2.0)
    Bottleneck(epsilon=2.0)

    References
    ----------
    .. [1] Gaucher, Dieuleveut, Hendrikx, "Unified Breakdown Analysis for Byzantine Robust Gossip", ICML 2025, whose
       attack also follows the graph's spectrum.
    """

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        check_positive("Bottleneck", "epsilon", self.epsilon)


@dataclass(frozen=True)
class Networked:
    """The result of a training without a server.

    Attributes
    ----------
    graph : array
        Who talked to whom.
    byzantine : tuple of int
        The indices of the Byzantine workers.
    condition : GossipCondition
        What theory says of the graph and of who is Byzantine.
    records : list of dict
        One for each evaluation: each worker's accuracy (None for Byzantine ones), their mean and least, and the spread:
        the honest models' root mean square distance to their mean, over that mean's length.
    """

    graph: Graph
    byzantine: tuple[int, ...]
    condition: GossipCondition
    records: list[dict[str, Any]] = field(repr=False)
    diverged: int | None = None
    states: tuple[Any, ...] = ()  # nothing is recorded for certificates

    def accuracy(self, last: int = LAST) -> float:
        """The mean over honest workers and over the last evaluations, 0 to 1."""
        found = [float(record["accuracy"]) for record in last_trained(self.records, last)]
        return sum(found) / len(found)

    def accuracies(self) -> list[float | None]:
        """Each worker's last accuracy; None for Byzantine ones."""
        return list(self.records[-1]["workers"])

    def lost(self, below: float = 0.5) -> list[int]:
        """The honest workers whose accuracy is less than this part of the best one's."""
        return lost_among(self.accuracies(), below)


class Decentralised:
    """Workers on a graph that train together without a server, some of them Byzantine.

    In each round an honest worker takes a step of SGD with its own momentum, sends its model to its neighbours, and
    replaces it by what a rule makes of the differences of its neighbours' models to its own. The rule is drawn by each
    worker for itself. Byzantine workers send different things to different neighbours: what the attack makes of the
    differences that this neighbour sees.

    Parameters
    ----------
    data, model
        As of a `Simulation`.
    rule : Rule
        Any: `MoNNA` (which is NNA here), `ClippedGossip`, `NNM(f) >> Comed()`, a MixTailor. Its f counts Byzantine
        neighbours; at workers with too few neighbours it is lowered as far as the rule needs.
    attack : Attack or Bottleneck, optional
        ``Tailored(epsilon, scale="sum/f")`` is the dissensus attack here: the receiver is driven away from its honest
        neighbours.
    settings : Settings
        n, byzantine, rounds, batch, learning rate, worker_momentum or momentum, seed, evaluate_every count.
    graph : array or str
        n x n of zeros and ones, a name of `TOPOLOGIES`, or a file of edges.
    partition : callable
        How the data are divided among the workers.
    folder : path, optional
        Where ``metrics.jsonl`` goes. A run that was stopped starts again.
    progress : Progress, optional
        Callbacks for rounds and evaluations.

    Examples
    --------
    >>> from mixtailor import MoNNA
    >>> from mixtailor.simulation import Settings, synthetic
    >>> settings = Settings(n=6, byzantine=0, rounds=20, batch=8, learning_rate=0.1, evaluate_every=20)
    >>> found = Decentralised(synthetic(), "logistic", MoNNA(f=1), settings=settings, graph="complete").run()
    >>> len(found.accuracies()), found.condition.possible
    (6, True)
    """

    def __init__(
        self,
        data: Any,
        model: Any,
        rule: Any,
        attack: Attack | Bottleneck | None = None,
        *,
        settings: Settings,
        graph: Any = "complete",
        partition: Partition = iid,
        folder: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        rule = as_rule(rule)
        if isinstance(rule, Keeping):
            refuse(f"{type(rule).__name__} belongs to one server. Workers on a graph need a rule that keeps nothing.")
        n = settings.n
        named = isinstance(graph, str) or hasattr(graph, "__fspath__")
        edges = topology(graph, n, seed=settings.seed) if named else np.asarray(graph, np.float64)
        if edges.shape != (n, n):
            refuse(f"A graph of {n} workers needs the shape ({n}, {n}) and has {edges.shape}.")
        drawn = stream(settings.seed, "byzantine").choice(n, settings.byzantine, replace=False)
        self.byzantine = () if attack is None else tuple(sorted(int(worker) for worker in drawn))
        self.condition = gossip_condition(edges, self.byzantine)
        self.graph, self.attack, self.settings = edges, attack, settings
        data = load(data) if isinstance(data, str) else as_dataset(data)
        network = build(model, data, seed=settings.seed)
        gradients = WorkerGradients(network, data.loss)
        self._workers = Workers(gradients, data, partition, settings)
        self._evaluate = Evaluation(network, data)
        self._models = gradients.layout.flatten(network).detach().expand(n, -1).clone()
        self._velocity = torch.zeros_like(self._models)
        self._honest = [worker for worker in range(n) if worker not in self.byzantine]
        self._rules = {worker: _fitting(rule, int(edges[worker].sum()) + 1) for worker in self._honest}
        self._entropy = {worker: SeededEntropy(settings.seed).spawn(f"worker {worker}") for worker in self._honest}
        self._states = {worker: attack.begin() for worker in self._honest} if isinstance(attack, Attack) else {}
        self._fiedler = fiedler_vector(edges, self.byzantine)
        self.folder, self.done = None if folder is None else Path(folder), 0
        self._progress: Progress = progress or Silent()
        self._tally = Tally()

    def run(self) -> Networked:
        """Train for all rounds."""
        records = Records(None if self.folder is None else self.folder / "metrics.jsonl")
        records.write(self._evaluated(0))
        for round in range(self.settings.rounds):
            self._one_round(round)
            self._progress.round(round + 1, "everybody's own")
            if (round + 1) % self.settings.evaluate_every == 0 or round + 1 == self.settings.rounds:
                records.write(self._evaluated(round + 1, last=round + 1 == self.settings.rounds))
                self._progress.evaluated(list(records)[-1])
        return Networked(self.graph, self.byzantine, self.condition, list(records))

    def _one_round(self, round: int) -> None:
        settings = self.settings
        for worker in self._honest:
            slope, loss = self._workers.rows(self._models[worker], round, [worker])
            self._tally.losses += float(loss[0]) / len(self._honest)
            velocity = self._velocity[worker].mul_(settings.momentum).add_(slope[0])
            velocity.add_(self._models[worker], alpha=settings.weight_decay)
            self._models[worker].sub_(velocity, alpha=settings.learning_rate)
        self._tally.rounds += 1
        sent = self._models.clone()
        for worker in self._honest:
            rows = self._received(worker, sent, round)
            own = torch.zeros_like(sent[worker])
            result = self._rules[worker].aggregate(
                torch.cat([own[None], rows]), reference=own, entropy=self._entropy[worker], round=round, on_fault="skip"
            )
            self._tally.drawn[repr(result.rule)] += 1
            self._tally.skipped += result.update is None
            if result.update is not None:
                self._models[worker] = sent[worker] + result.update

    def _received(self, worker: int, sent: torch.Tensor, round: int) -> torch.Tensor:
        """What the neighbours of a worker send it, as differences to its own model: the honest ones' first."""
        around = np.nonzero(self.graph[worker])[0].tolist()
        honest = [other for other in around if other not in self.byzantine]
        count = len(around) - len(honest)
        correct = sent[honest] - sent[worker]
        if not count:
            return correct
        if isinstance(self.attack, Bottleneck):
            along = torch.as_tensor(self._fiedler, dtype=sent.dtype)
            apart = (along[:, None] * sent).sum(0) * float(np.sign(self._fiedler[worker])) * self.attack.epsilon
            return torch.cat([correct, apart.expand(count, -1)])
        assert self.attack is not None
        seen = correct if len(honest) > count else torch.cat([torch.zeros_like(sent[:1]), correct])
        seen = seen[torch.isfinite(seen).all(1)]  # the attack computes with them, and some may have diverged
        used = min(count, len(seen) - 1)
        if used < 1:
            return torch.cat([correct, torch.zeros_like(sent[:1]).expand(count, -1)])
        if used < max(1, self.attack.least_f()):
            return torch.cat([correct, (-seen.mean(0)).expand(count, -1)])
        rng = stream(self.settings.seed, "attacker", round, worker)
        own = torch.zeros_like(sent[worker])
        made = self.attack.craft(seen, used, state=self._states.get(worker), rng=rng, reference=own).rows
        return torch.cat([correct, made, made[-1:].expand(count - used, -1)])

    def _evaluated(self, round: int, *, last: bool = False) -> dict[str, Any]:
        found: list[float | None] = [None] * self.settings.n
        losses = []
        for worker in self._honest:
            found[worker], loss = self._evaluate(self._models[worker])
            losses.append(loss)
        counted, self._tally = self._tally.plain(), Tally()
        known = [value for value in found if value is not None]
        models = self._models[self._honest].double()
        mean = models.mean(0)
        spread = float((models - mean).square().sum(1).mean().sqrt() / mean.norm().clamp_min(1e-30))
        record = {
            "round": round,
            "accuracy": float(np.mean(known)),
            "loss": float(np.mean(losses)) if np.isfinite(losses).all() else None,
            "learning_rate": self.settings.learning_rate,
            "diverged": None,
            **counted,
            "least": min(known),
            "spread": spread if np.isfinite(spread) else None,
            "workers": found,
        }
        if last:  # for the report: the graph, and who is lost on it
            edges = [[int(a), int(b)] for a, b in np.argwhere(np.triu(self.graph))]
            shown = {"edges": edges, "byzantine": list(self.byzantine), "condition": asdict(self.condition)}
            record["graph"] = {**shown, "lost": lost_among(found)}
        return record


def lost_among(accuracies: list[float | None], below: float = 0.5) -> list[int]:
    """The workers whose accuracy is less than this part of the best one's; None is a Byzantine worker's."""
    known = {worker: value for worker, value in enumerate(accuracies) if value is not None}
    return [worker for worker, value in known.items() if value < below * max(known.values())]


def _fitting(rule: Rule, rows: int) -> Rule:
    """The rule with its f lowered as far as a worker with few neighbours needs."""
    found = rule.lowered(rows, rule.declared_f() or 0)
    found.check_rows(rows)
    return found
