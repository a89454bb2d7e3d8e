"""A trusted aggregator: collects slices from workers that may do anything, aggregates, answers.

Sound against arbitrary workers: whatever they send, or if they send nothing, the answer is the rule's.
"""

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from mixtailor._checks import FaultError, check_count, check_positive, fault_message, refuse
from mixtailor.engines.distributed.keys import SharedKey, source_of
from mixtailor.engines.distributed.line import INCOMPLETE, LATE, SOUND, Line, reasons
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import as_rule
from mixtailor.rules.reputation import Observer
from mixtailor.rules.request import KeySource, OnFault
from mixtailor.updates.engine import Integers
from mixtailor.updates.sharded import Sharded
from mixtailor.updates.shards import Alone, Shards

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store  # torch.distributed does not export it to type checkers

__all__ = ["Aggregator"]

_NAP = 0.002


class Aggregator:
    """One of the aggregators that workers send slices of their vectors to.

    Each round it waits until every worker's slice is there or the time is over, settles with the other aggregators who
    is faulty, applies the rule and puts its slice of the answer where the workers fetch it. The first aggregator draws
    the key after the exchange and tells only the other aggregators.

    Parameters
    ----------
    rule : rule or callable
    d : int
        How many coordinates a worker's vector has.
    lines : list of Line
        One for each worker, in the order of the rows.
    dtype : torch dtype
        The type that vectors have.
    shards : Shards, optional
        The group of the aggregators, where there are several.
    timeout : float
        How many seconds a round waits for workers. One that was late is not waited for again until it is in time.
    on_fault : {"raise", "skip"}
        With "skip", a round with more faults than the rule withstands has no answer, and workers make no step.
    entropy : KeySource, optional
        Where the first aggregator takes keys from: the rule's own source by default.
    keep : int
        For how many rounds an answer is kept for workers that are late.
    reputation : Observer, optional
        Who hears of every round: a `mixtailor.Reputation`. It has no say in anything.
    """

    def __init__(
        self,
        rule: Any,
        d: int,
        lines: list[Line],
        *,
        dtype: torch.dtype = torch.float32,
        shards: Shards | None = None,
        timeout: float = 60.0,
        on_fault: OnFault = "raise",
        entropy: KeySource | None = None,
        keep: int = 2,
        reputation: Observer | None = None,
    ) -> None:
        check_positive("Aggregator", "timeout", timeout)
        check_count("Aggregator", "keep", keep)
        self.rule = as_rule(rule)
        if len(lines) < self.rule.min_rows():
            refuse(
                f"{self.rule!r} needs at least {self.rule.min_rows()} workers ({self.rule.requirement}) and there "
                f"are {len(lines)}. Lower f, or start more workers."
            )
        self.d, self.lines, self.timeout = d, lines, timeout
        self.shards = Alone(d) if shards is None else shards
        self.on_fault: OnFault = on_fault
        self.source = source_of(self.rule) if entropy is None else entropy
        self.keep = keep
        self.reputation = reputation
        self.round = 0
        self.silent: set[int] = set()
        width = self.shards.stop - self.shards.start
        self._rows = torch.zeros((len(lines), width), dtype=dtype)
        self._size = width * dtype.itemsize

    @classmethod
    def open(
        cls,
        meeting: "Store",
        rule: Any,
        d: int,
        *,
        workers: int,
        rank: int = 0,
        aggregators: int = 1,
        group: "dist.ProcessGroup | None" = None,
        host: str = "127.0.0.1",
        timeout: float = 60.0,
        **options: Any,
    ) -> "Aggregator":
        """Serve a line to every worker and tell the addresses.

        Parameters
        ----------
        meeting : Store
            Any store that all processes reach, such as that of `torchrun`; only addresses are told there.
        rule, d : rule, int
            As above.
        workers : int
            How many workers there are.
        rank, aggregators : int
            Which of how many aggregators this is.
        group : ProcessGroup, optional
            The aggregators' group, without workers; needed where there are several. Their default group if None.
        host : str
            The name or address by which workers reach this machine.
        timeout : float
            As above.
        **options
            Everything else that an `Aggregator` takes.
        """
        shards = Shards(d, group) if aggregators > 1 else None
        if shards is not None and (shards.count, shards.rank) != (aggregators, rank):
            refuse(
                f"Aggregator {rank} of {aggregators} needs a group of the aggregators alone, and is rank "
                f"{shards.rank} of {shards.count} in this one. Workers must not be in it: they would learn the draw."
            )
        served = [Line.serve(host, timeout) for _ in range(workers)]
        for worker, (_, address) in enumerate(served):
            meeting.set(f"mixtailor/line/{rank}/{worker}", address)
        return cls(rule, d, [line for line, _ in served], shards=shards, timeout=timeout, **options)

    def step(self, *, reference: torch.Tensor | None = None) -> Aggregation:
        """One round; `update` of what it returns is this aggregator's slice of the answer.

        Parameters
        ----------
        reference : Tensor, optional
            What the server trusts, whole.
        """
        codes = self._agreed(self._collect())
        answer = None  # workers are not left waiting for a round that has failed
        try:
            result = self._aggregate(codes, reference)
            answer = result.update
        finally:
            self._tell(answer)
            self.round += 1
        if self.reputation is not None:
            self.reputation.observe(result)
        return result

    # The exchange.

    def _collect(self) -> Integers:
        codes = np.full(len(self.lines), LATE)
        deadline = time.monotonic() + self.timeout
        pending = set(range(len(self.lines)))
        allowed = self.rule.tolerates(len(self.lines))
        while True:
            for worker in sorted(pending):
                code = self._read(worker)
                if code != LATE:
                    codes[worker] = code
                    pending.discard(worker)
            # Whoever was late before is not waited for, unless nothing could be done without it.
            if (pending <= self.silent and len(pending) <= allowed) or time.monotonic() > deadline:
                break
            time.sleep(_NAP)
        return codes

    def _read(self, worker: int) -> int:
        line = self.lines[worker]
        if not line.has("update", self.round):
            return LATE
        try:
            return line.read("update", self.round, self._rows[worker])
        except dist.DistError:  # its worker takes away what it has just put there
            return INCOMPLETE

    def _agreed(self, codes: Integers) -> Integers:
        """What is wrong with each row by all aggregators: a row that one of them lacks is faulty for all."""
        agreed = self.shards.gathered(codes).max(axis=0)
        self.silent = {worker for worker, code in enumerate(agreed) if code == LATE}
        return np.asarray(agreed)

    # The rule.

    def _aggregate(self, codes: Integers, reference: torch.Tensor | None) -> Aggregation:
        faults, n = reasons(codes), len(self.lines)
        sound = [row for row in range(n) if codes[row] == SOUND]
        if not sound:  # nothing to give a home to
            if self.on_fault == "skip":
                return Aggregation(None, self.rule, n)
            raise FaultError(fault_message(faults, n, self.rule.tolerates(n), ()), tuple(sorted(faults)))
        rows = self._rows if len(sound) == n else [self._rows[row] for row in sound]
        home = Sharded.of(rows, self.shards, faults=faults)
        own = None if reference is None else reference.detach().reshape(-1)[self.shards.start : self.shards.stop]
        source = SharedKey(self.shards, self.source)
        return self.rule.aggregate(home, reference=own, round=self.round, entropy=source, on_fault=self.on_fault)

    # The answer.

    def _tell(self, answer: torch.Tensor | None) -> None:
        old = self.round - self.keep
        for line in self.lines:
            if answer is None:
                line.note(f"skipped/{self.round}")
            else:
                line.send("answer", self.round, answer)
            line.forget("update", self.round, self._size)
            if old >= 0:
                line.note(f"forgotten/{old}")
                line.forget("update", old, self._size)  # what came too late
                line.forget("answer", old, self._size)

    def close(self, timeout: float | None = None) -> None:
        """Wait until the workers that are still there have read the last answer."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        waiting = {worker for worker in range(len(self.lines)) if worker not in self.silent}
        while self.round and waiting and time.monotonic() < deadline:
            waiting = {worker for worker in waiting if not self.lines[worker].noted(f"read/{self.round - 1}")}
            time.sleep(_NAP)
