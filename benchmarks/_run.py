"""All claims in one run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import (
    _own,
    adaptive_attack,
    after_torch,
    against_peers,
    far_row,
    files_in_little_memory,
    first_call,
    large,
    many_workers,
    multiple_of_the_mean,
    peak_memory,
    scaling_with_n,
    sharded_krum,
    small_updates,
    threads,
)
from benchmarks import round as a_round
from benchmarks._findings import Finding, to_json
from benchmarks._machine import machine
from benchmarks._measured import Measured, measure
from benchmarks._pipe import Worker
from benchmarks._plans import Plan
from benchmarks._table import tasks_of_table

__all__ = ["CLAIMS", "run"]

CLAIMS = (
    "multiple_of_the_mean",
    "far_row",
    "against_peers",
    "small_updates",
    "adaptive_attack",
    "scaling_with_n",
    "many_workers",
    "large",
    "after_torch",
    "peak_memory",
    "first_call",
    "threads",
    "round",
    "sharded_krum",
    "files_in_little_memory",
)
_NORMS = [f"Krum p={p:g}" for p in _own.NORMS]


def run(
    plan: Plan,
    claims: Sequence[str] = CLAIMS,
    say: Callable[[str], None] = lambda _text: None,
    save: Callable[[dict[str, Any]], None] = lambda _report: None,
) -> dict[str, Any]:
    """Measure the claims and return what the JSON file holds; `save` gets what is known after each part."""
    start = time.perf_counter()
    about: dict[str, Any] = {"machine": machine(), "versions": _own.versions(), "date": time.strftime("%Y-%m-%d")}
    found: list[Finding] = []
    wanted = set(claims)
    table: Measured | None = None

    def report() -> dict[str, Any]:
        return {**about, "minutes": round((time.perf_counter() - start) / 60, 1), "findings": to_json(found)}

    if wanted & {"multiple_of_the_mean", "far_row", "against_peers", "scaling_with_n"}:
        table, peers = _table(plan, wanted, say)
        found += peers.pop("findings", [])
        about["peers"] = peers
        about["means"] = {key[5:]: 1e3 * table.timings[key].median for key in table.timings if key.startswith("mean/")}
        about["yardstick"] = table.yardstick.removeprefix("mean/")
        found += multiple_of_the_mean.findings(table)
        found += far_row.findings(table)
        save(report())
    if "small_updates" in wanted:
        found += small_updates.findings(
            measure(plan, plan.small, tasks_of_table(), extra={"far": _NORMS, "tiny": _NORMS}, say=say)
        )
        save(report())
    if "adaptive_attack" in wanted:
        found += adaptive_attack.findings(plan, say)
        save(report())
    if "scaling_with_n" in wanted:
        assert table is not None
        wide = measure(plan, plan.wide, scaling_with_n.TASKS, ("gradients", "far"), say=say)
        found += scaling_with_n.beyond_the_budget(plan.wide)
        widest = measure(plan, plan.widest, scaling_with_n.WIDEST, say=say)
        found += scaling_with_n.findings(table, wide, widest)
        save(report())
    if "many_workers" in wanted:
        found += many_workers.findings(plan, say)
        save(report())
    if "large" in wanted:
        found += large.findings(plan, say)
        save(report())
    if "after_torch" in wanted:
        found += after_torch.findings(plan, say)
        save(report())
    if "peak_memory" in wanted:
        found += peak_memory.findings(plan.table, say=say)
        found += peak_memory.findings(plan.table, "far", say=say)
        found += peak_memory.findings(plan.wide, say=say)
        save(report())
    if "first_call" in wanted:
        found += first_call.findings(plan.cold, say=say)
    if "threads" in wanted:
        found += threads.findings(plan, say=say)
    if "round" in wanted:
        found += a_round.findings(plan, say=say)
        save(report())
    if "sharded_krum" in wanted:
        for ranks, d in plan.sharded:
            # Of short calls many: on fewer processors than ranks they vary by a third.
            found += sharded_krum.findings(ranks, d, (3 + 2 * plan.rounds) * max(1, 10_000_000 // d), say=say)
        save(report())
    if "files_in_little_memory" in wanted:
        found += files_in_little_memory.findings(*plan.files, say=say)
    return report()


def _table(plan: Plan, wanted: set[str], say: Callable[[str], None]) -> tuple[Measured, dict[str, Any]]:
    """The table's size: all rules of ours on all kinds of data, and the peers where they are installed."""
    with contextlib.ExitStack() as stack:
        facts: dict[str, Any] = {}
        rivals: list[Any] = []
        agreements: list[Finding] = []
        worker: Worker | None = None
        if "against_peers" in wanted and plan.peers is not None and plan.peers.exists():
            say("peers: a first look")
            worker = stack.enter_context(Worker("benchmarks.peers.tasks", plan.peers))
            agreements = list(against_peers.agreement(worker, plan.small))
            rivals, facts = against_peers.contenders(worker, plan.table, against_peers.hopeless(agreements))
        table = measure(
            plan, plan.table, tasks_of_table(), ("gradients", "far"), extra={"tiny": _NORMS}, peers=rivals, say=say
        )
        found = against_peers.findings(table, facts["remarks"]) if worker is not None else []
        return table, {**facts, "findings": [*agreements, *found]}
