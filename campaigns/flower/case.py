"""One hostile round: the strategy, its model, who replies what, and the promises that must hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.supercore.task_identity import TaskIdentity

import mixtailor as mt
from campaigns.flower.replies import KINDS, record_of, reply
from mixtailor.engines.flower import Adagrad, Adam, RobustStrategy, Yogi
from mixtailor.engines.flower.arrays import view
from mixtailor.mixing.entropy import SeededEntropy
from mixtailor.rules.part import walk

MODELS: list[dict[str, tuple[tuple[int, ...], str]]] = [
    {"w": ((6,), "float32")},
    {"w": ((3, 4), "float32"), "count": ((), "int64"), "flags": ((2,), "bool"), "b": ((5,), "float64")},
    {"half": ((8,), "float16"), "w": ((2, 3), "float32")},
]


HOSTILE_ROUNDS = 4  # in a row, for a memory


class Clients:
    """All of a grid that `configure_train` needs: who is connected."""

    def __init__(self, nodes: list[int]) -> None:
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.nodes, self.run = nodes, None

    def get_node_ids(self) -> list[int]:
        return self.nodes


def rules(f: int) -> list[Any]:
    """The rules that a case draws from, by f."""
    seeded = SeededEntropy(f)
    return [
        mt.Krum(f),
        mt.TrimmedMean(f),
        mt.Comed(),
        mt.GeometricMedian(),
        mt.NNM(f) >> mt.TrimmedMean(f),
        mt.SMEA(f, budget=5),
        mt.MDA(f, budget=100),
        mt.CAF(f),
        mt.Phocas(f),
        mt.Bucketing(size=2) >> mt.Comed(),
        mt.MixTailor(mt.default_pool(f), entropy=seeded),
        memories(f)[0],
        mt.MixTailor([mt.SMEA(f, budget=5), mt.Krum(f), mt.NNM(f) >> mt.Comed()], entropy=seeded),
        lambda rows: np.median(rows, axis=0),
    ]


def _bears_claims(rule: Any) -> bool:
    """Whether it has a form with weights, and bears any share below 1/2, which Krum does not."""
    parts = list(walk(rule)) if isinstance(rule, mt.Rule) else []
    return bool(parts) and all(part.takes_weights() and not isinstance(part, (mt.Krum, mt.MultiKrum)) for part in parts)


def memories(f: int) -> list[Any]:
    """`recommended` with draws that a seed repeats, and a memory around one rule."""
    return [
        mt.Memory(mt.MixTailor(mt.recommended(f).rule.rules, entropy=SeededEntropy(f)), key=f),
        mt.Memory(mt.NNM(f) >> mt.MultiKrum(f), key=f),
    ]


@dataclass
class Case:
    """What follows from a seed.

    With `memory`, the rule has one, and the same clients are hostile in four rounds, each time with other replies.
    """

    rng: np.random.Generator
    memory: bool = False
    strategy: RobustStrategy = field(init=False)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = self.rng
        self.f = int(rng.integers(1, 4))
        self.n = int(rng.integers(2 * self.f + 3, 16))
        choice = memories(self.f) if self.memory else rules(self.f)
        self.rule = choice[int(rng.integers(0, len(choice)))]
        self.sends = str(rng.choice(["models", "updates"]))
        cap = float(rng.choice([0.01, 0.45 / self.f])) if rng.random() < 0.3 else None
        if not _bears_claims(self.rule):
            cap = None
        optimizer = rng.choice([None, None, None, None, Adam(), Yogi(), Adagrad()])
        self.plain = optimizer is None and cap is None
        self.dropouts = int(rng.integers(0, 2))
        self.strategy = RobustStrategy(
            self.rule,
            sends=self.sends,  # type: ignore[arg-type]  # one of the two
            dropouts=self.dropouts,
            examples_cap=cap,
            server_optimizer=optimizer,
            min_train_nodes=self.n,
            min_available_nodes=self.n,
        )
        layout = MODELS[int(rng.integers(0, len(MODELS)))]
        self.model = {name: _values(rng, shape, dtype, 1.0) for name, (shape, dtype) in layout.items()}
        most = self.f if rng.random() < 0.8 else self.n
        self.bad = int(rng.integers(int(self.memory), most + 1))
        rounds = HOSTILE_ROUNDS if self.memory else 1
        self.kinds = [[str(kind) for kind in rng.choice(list(KINDS), self.bad)] for _ in range(rounds)]

    def asked(self, server_round: int) -> dict[int, Message]:
        """The questions of a round, numbered as the SuperLink does."""
        nodes = list(range(1, self.n + 1))
        record = record_of(self.model)
        messages = self.strategy.configure_train(server_round, record, ConfigRecord(), Clients(nodes))  # type: ignore[arg-type]  # all that is asked of it
        found = {message.metadata.dst_node_id: message for message in messages}
        for node, message in found.items():
            message.metadata.__dict__["_message_id"] = f"{server_round}-{node}"
        return found

    def replies(self, messages: dict[int, Message], kinds: list[str]) -> list[Any]:
        """What comes back: hostile clients first in number, in any order."""
        sent: list[Any] = []
        self.rows = {}
        for place, (node, message) in enumerate(sorted(messages.items())):
            update = {name: _moved(self.rng, values) for name, values in self.model.items()}
            if self.sends == "models":
                update = {n: v + self.model[n] if v.dtype.kind == "f" else v for n, v in update.items()}
            if place < len(kinds):
                found = KINDS[kinds[place]].send(self.rng, message, update)
            else:
                self.rows[node] = update
                found = [reply(message, update)]
            for one in found:
                if isinstance(one, Message) and not one.metadata.__dict__.get("_reply_to_message_id"):
                    one.metadata.__dict__["_reply_to_message_id"] = message.metadata.message_id
            sent += found
        order = self.rng.permutation(len(sent))
        return [sent[place] for place in order]


def played(rng: np.random.Generator, *, memory: bool = False) -> tuple[Case, list[str]]:
    """Hostile rounds and an honest one after them: what was broken."""
    case = Case(rng, memory)
    for server_round, kinds in enumerate([*case.kinds, []], start=1):
        messages = case.asked(server_round)
        arrays, metrics = case.strategy.aggregate_train(server_round, case.replies(messages, kinds))
        if arrays is None or metrics is None:
            return case, [f"round {server_round} came to nothing"]
        case.problems += judged(case, arrays, dict(metrics), kinds)
        case.model = {name: np.array(view(array)) for name, array in arrays.items()}
        answers = case.strategy.configure_evaluate(server_round, arrays, ConfigRecord(), Clients(list(messages)))  # type: ignore[arg-type]  # as above
        asked = {message.metadata.dst_node_id: message for message in answers}
        for node, message in asked.items():
            message.metadata.__dict__["_message_id"] = f"e{server_round}-{node}"
        found = case.strategy.aggregate_evaluate(server_round, case.replies(asked, kinds))
        if found is not None and 2 * len(kinds) < case.n and found.get("loss", 0.5) != 0.5:
            case.problems.append(f"the evaluated loss is {found['loss']}, and all honest clients say 0.5")
    return case, case.problems


def judged(case: Case, arrays: ArrayRecord, metrics: dict[str, Any], kinds: list[str]) -> list[str]:
    """The promises of one round."""
    problems = []
    found = {name: view(array) for name, array in arrays.items()}
    if {n: (v.shape, v.dtype) for n, v in found.items()} != {n: (v.shape, v.dtype) for n, v in case.model.items()}:
        return [f"the model changed its form: {sorted(found)}"]
    if not all(np.isfinite(values).all() for values in found.values() if values.dtype.kind == "f"):
        problems.append("the model is not finite")
    hostile = {node: kinds[node - 1] for node in range(1, len(kinds) + 1)}
    absent = [node for node, kind in hostile.items() if KINDS[kind].absent]
    if not set(metrics["mixtailor-quarantined"]) <= set(hostile):
        problems.append(f"honest clients are quarantined: {metrics['mixtailor-quarantined']}")
    proven = {node for node, kind in hostile.items() if KINDS[kind].proves or KINDS[kind].absent}
    named = {*metrics["mixtailor-quarantined"], *metrics["mixtailor-absent"]}
    unnamed = [hostile[node] for node in proven - named]
    if unnamed and not metrics["mixtailor-skipped"]:
        problems.append(f"proven faults are not named: {unnamed}")
    counted = case.n - min(len(absent), case.dropouts)
    tolerated = len(kinds) <= min(case.f, case.strategy.rule.tolerates(counted)) and counted >= 2 * case.f + 3
    if tolerated and metrics["mixtailor-skipped"]:
        problems.append(f"a round with {kinds} of {case.n}, f = {case.f}, was skipped")
    if metrics["mixtailor-skipped"] and any((found[n] != case.model[n]).any() for n in found):
        problems.append("a skipped round changed the model")
    if case.plain and not metrics["mixtailor-skipped"] and tolerated:
        problems += _bound(case, found)
    return problems


def _bound(case: Case, found: dict[str, Any]) -> list[str]:
    """The result of rules that keep to the honest values: no coordinate more than a few honest spreads outside."""
    problems = []
    base = case.model if case.sends == "models" else {}
    for name, values in found.items():
        if values.dtype.kind != "f":
            continue
        rows = np.stack([row[name].astype(np.float64) - base.get(name, 0.0) for row in case.rows.values()])
        step = values.astype(np.float64) - case.model[name]
        spread = np.linalg.norm(rows.reshape(len(rows), -1) - rows.reshape(len(rows), -1).mean(axis=0), axis=1).max()
        error = np.linalg.norm((step - rows.mean(axis=0)).reshape(-1))
        if error > 40 * (spread + 1e-2):  # far above every coefficient here, far below what hostile clients send
            problems.append(f"{case.rule!r}: {name} is {error:.3g} from the honest mean, whose spread is {spread:.3g}")
    return problems


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, size: float) -> Any:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype == "int64":
        return np.asarray(rng.integers(0, 100, shape))
    return np.asarray(size * rng.standard_normal(shape)).astype(dtype)


def _moved(rng: np.random.Generator, values: Any) -> Any:
    if values.dtype.kind == "f":
        return np.asarray(0.1 * rng.standard_normal(values.shape)).astype(values.dtype)
    return values + 1 if values.dtype.kind == "i" else values
