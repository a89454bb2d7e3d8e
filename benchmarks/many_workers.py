"""At hundreds of updates, rules that look at all pairs cost less than Krum by one matrix product of torch's.

The yardstick is Krum by the plainest BLAS way: torch's ``X @ X.T`` in float32, squared distances from it, one sort. It
is no implementation to use: near-duplicate updates lose their digits in it, and one far update takes those of all
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mixtailor as mt
from benchmarks._data import gradients
from benchmarks._findings import Finding
from benchmarks._harness import SETTLE, Contender, Timing, interleave, local, ratio
from benchmarks._pipe import TaskError, Worker
from benchmarks._plans import Plan, Size

__all__ = ["LIMITS", "by_matrix_product", "findings"]

CLAIM = "many_workers"
YARDSTICK = "Krum by X @ X.T"
# What a rule may cost in units of the yardstick, by the number of updates.
LIMITS: Mapping[str, Mapping[int, float]] = {
    "Krum": {50: 0.5, 200: 0.7, 1000: 0.7},
    "GeometricMedian": {50: 0.6, 200: 0.8, 1000: 0.9},
    "Bulyan": {50: 0.8, 200: 1.0, 1000: 1.5},
    "CAF": {50: 0.9, 200: 1.2, 1000: 2.0},
    "SMEA": {50: 0.9, 200: 1.2, 1000: 2.0},
    "MDA": {50: 0.9, 200: 1.2, 1000: 2.0},
    "Krum p=3": {50: 0.7, 200: 1.2, 1000: 2.0},
    "NNM >> TrimmedMean": {50: 2.0, 200: 2.5, 1000: 3.5},
}
PEERS = ("TorchJD", "ByzFL", "Flower")
_PATIENCE = 20  # seconds that a peer may take for one call
_SUBSETS = ("MDA", "SMEA")  # the peers form all subsets of n - f rows, which takes all memory from 50 rows on


def rules(f: int) -> dict[str, mt.Rule]:
    """The rules of the table; SMEA and MDA search among updates, so that they have f = 2."""
    return {
        "Krum": mt.Krum(f),
        "MultiKrum": mt.MultiKrum(f),
        "GeometricMedian": mt.GeometricMedian(),
        "Bulyan": mt.Bulyan(f),
        "CAF": mt.CAF(f),
        "SMEA": mt.SMEA(min(f, 2)),
        "MDA": mt.MDA(min(f, 2)),
        "Krum p=3": mt.Krum(f, p=3),
        "NNM >> TrimmedMean": mt.NNM(f) >> mt.TrimmedMean(f),
        "Comed": mt.Comed(),
    }


def by_matrix_product(rows: Any, f: int) -> Callable[[], Any]:
    """Krum by the plainest BLAS way."""
    import torch

    tensor = torch.from_numpy(rows)

    def krum() -> Any:
        products = tensor @ tensor.T
        squares = products.diagonal()
        distances = squares[:, None] + squares[None, :] - 2 * products
        scores = distances.sort(dim=1).values[:, 1 : len(tensor) - f - 1].sum(dim=1)
        return tensor[int(scores.argmin())].clone()

    return krum


def _called(rule: mt.Rule, rows: Any) -> Callable[[], Any]:
    return lambda: rule(rows)


def findings(plan: Plan, say: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """Every rule in units of the yardstick, each size in one interleaved run; the peers that can do it beside them."""
    try:
        import torch  # noqa: F401  # the yardstick is its product
    except ImportError:
        return []
    return [finding for size in plan.many for finding in _at(plan, size, say)]


def _at(plan: Plan, size: Size, say: Callable[[str], None]) -> list[Finding]:
    say(f"{size}: compiling and warming up")
    rows = gradients(size.n, size.d, size.f)
    contenders = [local(name, _called(rule, rows)) for name, rule in rules(size.f).items()]
    contenders.append(local(YARDSTICK, by_matrix_product(rows, size.f), SETTLE))
    worker = Worker("benchmarks.peers.tasks", plan.peers) if plan.peers is not None and plan.peers.exists() else None
    try:
        if worker is not None:
            contenders += _peers(worker, size, say)
        timings = interleave(
            contenders, rounds=plan.rounds, spend=2 * plan.spend, say=lambda text: say(f"{size}: {text}")
        )
    finally:
        if worker is not None:
            worker.close()
    return [_finding(size, name, timings) for name in timings if name != YARDSTICK]


def _peers(worker: Worker, size: Size, say: Callable[[str], None]) -> list[Contender]:
    """What the peers have of these rules; one that takes too long for a call is left out."""
    told = worker.ask("data", n=size.n, d=size.d, f=size.f)
    kept = []
    for task in told["tasks"]:
        rule, _, library = task.partition(" @ ")
        if rule not in rules(size.f) or rule in _SUBSETS or not library.startswith(PEERS):
            continue
        say(f"{size}: a first look at {task}")
        try:
            worker.ask("time", task=task, calls=1, patience=_PATIENCE)
        except TaskError:
            continue
        kept.append(worker.contender(task, task))
    return kept


def _finding(size: Size, name: str, timings: Mapping[str, Timing]) -> Finding:
    value, low, high = ratio(timings[name], timings[YARDSTICK])
    facts = {"milliseconds": 1e3 * timings[name].median, "yardstick_milliseconds": 1e3 * timings[YARDSTICK].median}
    limit = LIMITS.get(name, {}).get(size.n)
    note = f"{facts['milliseconds']:.0f} ms; {YARDSTICK} {facts['yardstick_milliseconds']:.0f} ms"
    return Finding(CLAIM, name, str(size), value, "x", limit, low=low, high=high, note=note, facts=facts)
