"""Gossip: ranks without a server that talk to their neighbours alone, point to point.

Each rank aggregates for itself around its own vector: no other rank computes any part of its result. Neighbours notice
a rank that ends, and continue.
"""

import datetime
from collections.abc import Sequence
from typing import Any, final

import torch
import torch.distributed as dist

from mixtailor._checks import check_positive, refuse
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import Rule
from mixtailor.rules.plain import as_rule

__all__ = ["Gossip"]


@final
class Gossip:
    """Replace a rank's tensor by what a rule makes of its neighbours' and its own.

    Parameters
    ----------
    rule : Rule
        Any. It is given the differences to this rank's own tensor, its own (zeros) first, and zeros as reference, so
        that `MoNNA` and `ClippedGossip` are drawn around the own model. Each rank draws for itself.
    neighbours : sequence of int
        The ranks that this one talks to; they have to talk to it.
    group : ProcessGroup, optional
        All ranks by default.
    timeout : float
        Seconds to wait for a neighbour. One that does not send in time is left out from then on.

    Examples
    --------
    On a group of one, without neighbours, a tensor stays as it is.

    >>> import mixtailor as mt
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = torch.tensor([1.0, 2.0])
    >>> result = Gossip(mt.Comed(), [])(model)
    >>> model
    tensor([1., 2.])
    >>> dist.destroy_process_group()

    Notes
    -----
    Sound against whatever values up to f neighbours send, different ones to different neighbours included, and against
    ranks that end. Not sound against a compromised host: gloo trusts the sizes that a peer announces. Absent neighbours
    count as faulty ones: f is lowered by at most their number.
    """

    def __init__(
        self, rule: Any, neighbours: Sequence[int], group: "dist.ProcessGroup | None" = None, *, timeout: float = 30.0
    ) -> None:
        self.rule: Rule = as_rule(rule)
        if self.rule.outermost:
            refuse(f"{type(self.rule).__name__} belongs to one server. Gossip needs a rule that keeps nothing.")
        check_positive("Gossip", "timeout", timeout)
        rank = dist.get_rank(group)
        self.neighbours = sorted({int(other) for other in neighbours})
        if rank in self.neighbours or any(not 0 <= other < dist.get_world_size(group) for other in self.neighbours):
            refuse(f"Gossip needs other ranks of the group as neighbours and got {list(neighbours)} on rank {rank}.")
        self.rule.check_rows(len(self.neighbours) + 1)
        self.group, self.timeout, self.rounds = group, datetime.timedelta(seconds=timeout), 0
        self.absent: list[int] = []

    def __call__(self, tensor: torch.Tensor) -> Aggregation:
        """Exchange with the neighbours, and overwrite the tensor by the result; it stays where a round is skipped."""
        own = tensor.detach().reshape(-1).contiguous()
        received = self._exchanged(own)
        rows = torch.stack([torch.zeros_like(own), *(row - own for row in received)])
        rule = self.rule.lowered(len(rows), len(self.absent))
        result = rule.aggregate(rows, reference=torch.zeros_like(own), on_fault="skip")
        if result.update is None:
            return result
        with torch.no_grad():
            tensor.copy_((own + result.update).reshape(tensor.shape))
        return result.with_update(tensor)

    def _exchanged(self, own: torch.Tensor) -> list[torch.Tensor]:
        """What the neighbours that are there sent in this round."""
        self.rounds += 1
        sent, waiting = [], []
        for other in [rank for rank in self.neighbours if rank not in self.absent]:
            row = torch.empty_like(own)
            try:
                waiting.append((other, row, dist.irecv(row, self._global(other), self.group, tag=self.rounds)))
                sent.append(dist.isend(own, self._global(other), self.group, tag=self.rounds))
            except RuntimeError:
                self._leave_out(other)
        received = []
        for other, row, work in waiting:
            if other in self.absent:
                continue
            try:
                assert work is not None
                work.wait(self.timeout)
            except RuntimeError:
                self._leave_out(other)
            else:
                received.append(row)
        for work in sent:
            try:
                if work is not None:
                    work.wait(self.timeout)
            except RuntimeError:  # who does not take what is sent is found when it does not send
                continue
        return received

    def _leave_out(self, other: int) -> None:
        if other not in self.absent:
            self.absent.append(other)

    def _global(self, other: int) -> int:
        return other if self.group is None else dist.get_global_rank(self.group, other)
