"""Rows whose coordinates are shared out over the ranks of a `torch.distributed` group."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from mixtailor._checks import refuse
from mixtailor.updates.arrays import in_memory, is_torch
from mixtailor.updates.base import Updates
from mixtailor.updates.engine import Floats, Integers
from mixtailor.updates.home import Home
from mixtailor.updates.points import Combination, Point
from mixtailor.updates.receive import Arrival, receive
from mixtailor.updates.shards import Shards, gather_into

__all__ = ["Sharded"]


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
        rows : array, tensor, sequence or Home
            The rows that are sound, in their order. What comes as a home is answered as it computes: a flat array.
        shards : Shards
        faults : mapping, optional
            Rows as received that are not among them, and what is wrong with each; the same on all ranks.
        answer : array, optional
            Where the first answer goes: flat, of the rows' type, and no row's memory.
        """
        known = dict(faults or {})
        own = receive(rows)
        if own.faults:
            refuse(f"Rows {sorted(own.faults)} of this slice are not of the shape or type of the others.")
        n = own.n + len(known)
        if known:
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
