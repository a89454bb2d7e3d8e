"""A worker of trusted aggregators: sends slices of its vector, gets slices of the answer."""

import datetime
import time
from typing import TYPE_CHECKING

import torch

from mixtailor._checks import refuse
from mixtailor.engines.distributed.line import SOUND, Line
from mixtailor.updates.shards import bounds

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store  # torch.distributed does not export it to type checkers

__all__ = ["Worker"]

_NAP = 0.002


class Worker:
    """One worker's lines to all aggregators, for `RobustOptimizer`.

    Parameters
    ----------
    lines : sequence of Line
        One for each aggregator, in their order.
    timeout : float
        How many seconds to wait for an answer before giving up.

    Notes
    -----
    A worker that is late still gets the answer of its round, as long as the aggregators keep it, so it steps as the
    others do and catches up. One that fell further behind is told so, and needs the model from somebody else.
    """

    def __init__(self, lines: list[Line], *, timeout: float = 300.0, round: int = 0) -> None:
        self.lines, self.timeout, self.round = lines, timeout, round

    @classmethod
    def join(
        cls, meeting: "Store", worker: int, *, aggregators: int = 1, timeout: float = 300.0, round: int = 0
    ) -> "Worker":
        """Find the aggregators.

        Parameters
        ----------
        meeting : Store
            Any store that all processes reach, such as that of `torchrun`; only addresses are told there.
        worker : int
            Which worker this is, from 0.
        aggregators : int
            How many aggregators there are.
        timeout : float
            Seconds to wait, for the addresses and for each answer.
        round : int
            The next round, for a worker that joins again.
        """
        keys = [f"mixtailor/line/{aggregator}/{worker}" for aggregator in range(aggregators)]
        meeting.wait(keys, datetime.timedelta(seconds=timeout))
        lines = [Line.join(meeting.get(key).decode(), timeout) for key in keys]
        return cls(lines, timeout=timeout, round=round)

    def exchange(self, vector: torch.Tensor) -> torch.Tensor | None:
        """Send a vector, wait for the answer; None where the aggregators skipped the round."""
        self.send(vector)
        return self.answer(vector)

    def send(self, vector: torch.Tensor) -> None:
        """Send this round's vector, a slice to each aggregator."""
        flat = vector.detach().reshape(-1)
        for place, line in enumerate(self.lines):
            start, stop = bounds(flat.numel(), len(self.lines), place)
            line.send("update", self.round, flat[start:stop])

    def answer(self, like: torch.Tensor) -> torch.Tensor | None:
        """Wait for this round's answer, a vector of the length and type of `like`."""
        deadline = time.monotonic() + self.timeout
        whole = torch.empty(like.numel(), dtype=like.dtype)
        skipped = False
        for place, line in enumerate(self.lines):
            while not (line.has("answer", self.round) or (skipped := line.noted(f"skipped/{self.round}"))):
                if line.noted(f"forgotten/{self.round}"):
                    refuse(
                        f"This worker is at round {self.round}, whose answer the aggregators no longer keep. Join "
                        "again with a copy of the model and the round that it is of."
                    )
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"Aggregator {place} gave no answer for round {self.round} in {self.timeout:g} s. "
                        "Is it running, and is its timeout shorter than this one?"
                    )
                time.sleep(_NAP)
            if skipped:
                break
            start, stop = bounds(like.numel(), len(self.lines), place)
            if line.read("answer", self.round, whole[start:stop]) != SOUND:
                refuse(
                    f"The answer of aggregator {place} is not of {stop - start} coordinates of {like.dtype}, as this "
                    "worker's slice is. Give aggregators and workers the same model."
                )
        for line in self.lines:
            line.note(f"read/{self.round}")
        self.round += 1
        return None if skipped else whole.to(like.device)
