"""Rows whose coordinates are shared out over the ranks of a `torch.distributed` group."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.distributed as dist

from mixtailor._checks import refuse
from mixtailor.updates.arrays import in_memory, is_torch, read
from mixtailor.updates.base import Updates
from mixtailor.updates.dense import Dense
from mixtailor.updates.engine import Floats, Integers
from mixtailor.updates.home import Home
from mixtailor.updates.points import Combination, Point
from mixtailor.updates.receive import Arrival, receive

__all__ = ["Alone", "Sharded", "Shards", "bounds", "gather_into"]

# Functions of this module have the default group as a default argument, bound when it is imported, and `torch.optim`
# imports it late. Bound to a group that is there, they keep it alive past `destroy_process_group`. Its threads then
# still run while the interpreter ends, and one that drops a tensor there aborts the process.
if not dist.is_initialized():
    import torch.distributed.nn.functional

# Up to so many numbers from all ranks together are sent by each to each and summed there: one step, where a sum on the
# first rank that is told to the others takes two.
_GATHERED = 1 << 16

# One call of two names: torch 2.13 warns of the older.
gather_into: Callable[..., Any] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


_KERNELS = (torch.float32, torch.float64)
_CPU = torch.device("cpu")
_backends: "WeakKeyDictionary[dist.ProcessGroup, str]" = WeakKeyDictionary()


def _on_gpu(group: "dist.ProcessGroup") -> bool:
    if group not in _backends:
        _backends[group] = dist.get_backend(group)
    return _backends[group] == "nccl"


def bounds(d: int, count: int, rank: int) -> tuple[int, int]:
    """The coordinates of one of `count` slices: all are of width ceil(d / count), but for the last ones.

    Examples
    --------
    >>> [bounds(10, 4, rank) for rank in range(4)]
    [(0, 3), (3, 6), (6, 9), (9, 10)]
    """
    width = -(-d // count)
    start = min(rank * width, d)
    return start, min(start + width, d)


class Shards:
    """How d coordinates are shared out over a group, and how its ranks come to the same numbers.

    Laws: every rank gets the same bits, so that all decide alike; every rank makes the same calls in the same order.

    Parameters
    ----------
    d : int
        The coordinates of all slices together.
    group : ProcessGroup, optional
        The ranks that take part; all of them by default.

    Attributes
    ----------
    members : ProcessGroup
        The group, also where it is the default one.
    alike : bool
        Whether all ranks are known to come to the same bits when they compute the same from the same numbers.
    """

    def __init__(self, d: int, group: "dist.ProcessGroup | None" = None) -> None:
        self.group = group
        self.alike = False
        self._words: tuple[Integers, Callable[[Integers], None]] | None = None
        if dist.get_rank(group) < 0:
            refuse("This rank is not in the group. Call on the ranks of the group only.")
        members = dist.group.WORLD if group is None else group
        assert members is not None, "without a default group, get_rank has refused"
        self.members, self.rank, self.count = members, members.rank(), members.size()
        self._first = 0 if group is None else dist.get_global_rank(group, 0)
        self.device = torch.device("cuda", torch.cuda.current_device()) if _on_gpu(members) else _CPU
        self.cover(d)

    def cover(self, d: int) -> None:
        """Share out another number of coordinates."""
        self.d, self.width = d, -(-d // self.count)
        self.places = [bounds(d, self.count, rank) for rank in range(self.count)]
        self.start, self.stop = self.places[self.rank]

    def say(self, words: Integers, hear: Callable[[Integers], None]) -> None:
        """Have whole numbers travel with what the ranks exchange next; `hear` gets those of all ranks, a row each."""
        self._words = words, hear

    def settle(self) -> None:
        """Exchange now what is still to be said."""
        if self._words is not None:
            (words, hear), self._words = self._words, None
            hear(self.gathered(words))

    def gathering(self, values: Any) -> Callable[[], Any]:
        """Begin to gather; the call that is returned waits for the end."""
        own = np.asarray(values)
        copies = np.empty((self.count, own.size), own.dtype)
        copies[:] = own.reshape(-1)
        sent = torch.from_numpy(copies).to(self.device)
        every = torch.empty_like(sent)
        # Each rank to each, in one step. gloo's all_gather goes round in a ring, and on few processors each of its
        # count - 1 steps waits until the next rank is awake.
        work = dist.all_to_all_single(every, sent, group=self.members, async_op=True)

        def end() -> Any:
            work.wait()
            return every.cpu().numpy().reshape(self.count, *own.shape)

        return end

    def exchange(self, sent: "Sequence[torch.Tensor | None]", received: "Sequence[torch.Tensor | None]") -> list[Any]:
        """Begin to send each of the other ranks a tensor and to receive one from each, where there is one.

        Each rank to each, in one step: gloo's own collectives go round in a ring, or hand the work to another thread,
        and on few processors every step waits until somebody is awake.
        """
        group, peers = self.members, [(self.rank + step) % self.count for step in range(1, self.count)]
        into = [(rank, part) for rank in reversed(peers) if (part := received[rank]) is not None and part.numel()]
        out = [(rank, part) for rank in peers if (part := sent[rank]) is not None and part.numel()]
        if self.device.type == "cpu":  # past what `isend` and `irecv` look at anew for each of them
            return [group.recv([part], rank, 0) for rank, part in into] + [
                group.send([part], rank, 0) for rank, part in out
            ]
        batch = [dist.P2POp(dist.irecv, part, group=group, group_peer=rank) for rank, part in into]
        batch += [dist.P2POp(dist.isend, part, group=group, group_peer=rank) for rank, part in out]
        return dist.batch_isend_irecv(batch) if batch else []

    def gathered(self, values: Any) -> Any:
        """A numpy array of one shape from every rank, stacked in the order of the ranks."""
        return self.gathering(values)()

    def together(self, values: Floats, *, maximum: bool = False) -> Floats:
        """The sums, or the maxima, of what the ranks have; the same bits everywhere."""
        if values.size * self.count <= _GATHERED:
            every = self._gathered_with_words(values)
            with np.errstate(all="ignore"):  # what is not finite is looked for by whoever asked
                return np.asarray(every.max(axis=0) if maximum else every.sum(axis=0))
        self.settle()
        # A maximum of NaN and a number is either, by the backend; infinity is as good a sign of a faulty row.
        whole = np.where(np.isnan(values), np.inf, values) if maximum else values
        total = torch.from_numpy(np.array(whole)).to(self.device)
        dist.reduce(total, self._first, op=dist.ReduceOp.MAX if maximum else dist.ReduceOp.SUM, group=self.group)
        dist.broadcast(total, self._first, group=self.group)
        return np.asarray(total.cpu().numpy())

    def _gathered_with_words(self, values: Floats) -> Floats:
        if self._words is None:
            return np.asarray(self.gathered(values))
        (words, hear), self._words = self._words, None
        # Floats travel as the bits of whole numbers, and not the other way round: some bits are a NaN.
        every = self.gathered(np.concatenate([words, values.reshape(-1).view(np.int64)]))
        hear(every[:, : words.size])
        return np.asarray(every[:, words.size :].view(np.float64).reshape(self.count, *values.shape))

    def from_first(self, values: Any) -> Any:
        """What the first rank has, a numpy array of one shape on all ranks."""
        self.settle()
        told = torch.from_numpy(np.array(values)).to(self.device)
        dist.broadcast(told, self._first, group=self.group)
        return told.cpu().numpy()


class Alone(Shards):
    """One process that has all coordinates, and needs no group.

    Examples
    --------
    >>> Alone(5).start, Alone(5).stop
    (0, 5)
    """

    def __init__(self, d: int) -> None:
        self.d = self.width = d
        self.group, self.rank, self.count, self.alike = None, 0, 1, True
        self._words = None
        self.start, self.stop = 0, d
        self.device = _CPU

    def gathered(self, values: Any) -> Any:
        return np.asarray(values)[None]

    def together(self, values: Floats, *, maximum: bool = False) -> Floats:
        return values

    def from_first(self, values: Any) -> Any:
        return values


def _in_place(rows: Any) -> Arrival | None:
    """What `receive` makes of a matrix of floats on the CPU, in a fraction of its time: a slice is soon computed."""
    if type(rows) is not torch.Tensor or rows.dtype not in _KERNELS or not rows.is_cpu or not rows.is_contiguous():
        return None
    kind, raw = read(rows)
    return Arrival(
        Dense.of(raw.numpy()), {}, len(rows), lambda answer, _home: torch.from_numpy(answer), kind.row.flatten
    )


class Sharded(Home):
    """All n rows on this rank's slice of the coordinates; the ranks of the group have the others.

    Distances and products are sums over the ranks, columnwise statistics are this rank's own, an answer is this rank's
    slice. A sign of a non-finite entry that one rank sees is kept until the pass ends and travels with the numbers that
    the ranks exchange then, so that all look for the row, and take it out, together.

    Parameters
    ----------
    part : Home
        The rows on this rank's coordinates.
    shards : Shards
    """

    def __init__(
        self,
        part: Home,
        shards: Shards,
        arrival: "Callable[[Sharded], Arrival] | None" = None,
        answer: Any = None,
    ) -> None:
        super().__init__(part.n, shards.d, part.engine, part.call, part.received)
        if part.d != shards.stop - shards.start:
            refuse(f"This rank's slice needs {shards.stop - shards.start} coordinates and has {part.d}.")
        self.part, self.shards = part, shards
        self._arrived, self._spare = arrival, answer
        self._passing = False
        self._doubtful = False
        part._examined = True  # faults are looked for by all ranks together, never by one of them

    @classmethod
    def of(cls, rows: Any, shards: Shards, *, faults: Mapping[int, str] | None = None, answer: Any = None) -> "Sharded":
        """The home of rows in any form, each on this rank's coordinates.

        Parameters
        ----------
        rows : array, tensor or sequence
            The rows that are sound, in their order.
        shards : Shards
        faults : mapping, optional
            Rows as received that are not among them, and what is wrong with each; the same on all ranks.
        answer : array, optional
            Where the first answer goes: flat, of the rows' type, and no row's memory.
        """
        known = dict(faults or {})
        own = _in_place(rows) or receive(rows)
        if own.faults:
            refuse(f"Rows {sorted(own.faults)} of this slice are not of the shape or type of the others.")
        n = own.n + len(known)
        own.home.received = tuple(row for row in range(n) if row not in known)
        return cls(own.home, shards, lambda home: Arrival(home, dict(known), n, own.restore, own.flatten), answer)

    @property
    def arrival(self) -> Arrival | None:
        """What was received; a reference is this rank's slice of it, and so is the answer."""
        return self._arrived and self._arrived(self)

    # Coordinates are counted over all ranks; the slice counts its own.

    def _shifted(self, runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        at = self.shards.start
        return [(start + at, stop + at) for start, stop in runs]

    def runs(self) -> list[tuple[int, int]]:
        return self._shifted(self.part.runs())

    def view_runs(self, n: int) -> list[tuple[int, int]]:
        return self._shifted(self.part.view_runs(n))

    def block(self, start: int, stop: int) -> Any:
        return self.part.block(start - self.shards.start, stop - self.shards.start)

    def slice(self, answer: Any, start: int, stop: int) -> Any:
        return self.part.slice(answer, start - self.shards.start, stop - self.shards.start)

    def given_values(self, vector: Any, start: int, stop: int) -> Any:
        return self.part.given_values(vector, start - self.shards.start, stop - self.shards.start)

    def _own(self, which: Integers) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        return np.asarray((which >= self.shards.start) & (which < self.shards.stop))

    def coordinates(self, which: Integers) -> Floats:
        here = self._own(which)
        found = self.part.coordinates(which[here] - self.shards.start)
        placed = np.zeros((self.n, len(which)))
        placed[:, here] = found
        return self.reduce(placed).astype(found.dtype)

    def given_coordinates(self, vector: Any, which: Integers) -> Floats:
        here = self._own(which)
        placed = np.zeros(len(which))
        placed[here] = self.part.given_coordinates(vector, which[here] - self.shards.start)
        return self.reduce(placed)

    def picked(self, run: Any, which: Integers) -> Floats:
        return self.part.given_coordinates(run, which)

    def only(self, rows: Sequence[int]) -> "Sharded":
        left = Sharded(self.part.only(rows), self.shards)
        left.call = self.call
        return left

    @property
    def largest(self) -> float:
        return self.part.largest

    def new(self) -> Any:
        spare, self._spare = self._spare, None
        return self.part.new() if spare is None else spare

    def copy_row(self, row: int, answer: Any) -> None:
        self.part.copy_row(row, answer)

    def row_bytes(self, row: int) -> Iterable[Any]:
        if self.shards.count > 1:
            refuse(
                "An audited draw needs the digests of whole rows, and this rank holds a slice of each. "
                "Use one aggregator, which receives whole rows."
            )
        return self.part.row_bytes(row)

    def _zero_is_exact(self, p: float) -> bool:
        return self.part._zero_is_exact(p)

    # What all ranks do together.

    def gathered(self, jobs: Sequence[Callable[[], Any]]) -> Any:
        outer, self._passing = self._passing, True
        try:
            return self.part.gathered([*jobs[:-1], partial(self._last, jobs[-1])])
        finally:
            self._passing = outer

    def _last(self, job: Callable[[], Any]) -> Any:
        """The last job of a pass; an engine that keeps its doubts on a device tells them now."""
        answer = job()
        doubts = getattr(self.engine, "doubts", [])
        if doubts:
            self._doubtful |= bool(torch.stack(doubts).any())
            doubts.clear()
        return answer

    def reduce(self, total: Floats, *, maximum: bool = False) -> Floats:
        values = np.empty(total.size + 1)
        values[:-1], values[-1] = total.reshape(-1), self._doubtful
        self._doubtful = False
        together = self.shards.together(values, maximum=maximum)
        if together[-1] > 0.0:
            self.examine()
        return together[:-1].reshape(np.shape(total))

    def examine(self) -> None:
        if self._passing:  # the other ranks may have seen nothing
            self._doubtful = True
        else:
            super().examine()

    def evaluate(self, point: Point) -> Any:
        if isinstance(point, Combination) and not self.shards.alike:
            # Ranks on different processors may differ in the last bit of what they decided from the same numbers.
            point = replace(point, weights=self.shards.from_first(point.weights))
        return super().evaluate(point)

    def _fill(self, over: Updates, write: Any) -> None:
        finite = self.gathered([partial(write, start, stop) for start, stop in over.runs()]).all()
        if self.reduce(np.array([0.0 if finite else 1.0]))[0] > 0.0:
            self.examine()

    # Plain callables see whole rows, so every rank holds all of them for the time of the call.

    def assemble(self, matrices: list[Any]) -> Any:
        own = self.part.assemble(matrices)
        if self.shards.count == 1:
            return own
        tensor = own if is_torch(own) else torch.from_numpy(own)
        width = self.shards.width
        sent = tensor.new_zeros((len(tensor), width), device=self.shards.device)
        sent[:, : tensor.shape[1]] = tensor
        every = sent.new_empty((self.shards.count, *sent.shape))
        gather_into(every.view(-1), sent.view(-1), group=self.shards.group)
        whole = every.transpose(0, 1).reshape(len(tensor), -1)[:, : self.d].contiguous()
        return whole.to(tensor.device) if is_torch(own) else whole.cpu().numpy()

    def adopt(self, answer: Any, rule: str) -> Any:
        whole = super().adopt(in_memory(answer.detach().cpu()) if is_torch(answer) else answer, rule)
        told = self.shards.from_first(whole)
        return self.part.adopt(told[self.shards.start : self.shards.stop], rule)
