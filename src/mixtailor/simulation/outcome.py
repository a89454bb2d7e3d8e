"""The result of a training."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from mixtailor.rules import Reputation
from mixtailor.simulation.records import LAST, last_trained

if TYPE_CHECKING:
    import torch

    from mixtailor.simulation.records import Record
    from mixtailor.theory import State

__all__ = ["TRACKED", "Outcome"]

# What a tracker receives of a record.
TRACKED = ("accuracy", "loss", "train_loss", "learning_rate", "byzantine_weight", "skipped")


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a training.

    Attributes
    ----------
    weights : torch.Tensor
        ``(d,)``, the last ones.
    records : list of dict
        One for each evaluation: accuracy, loss, and what happened since the one before.
    diverged : int or None
        The round in which no honest worker had a finite update any more; training stopped there.
    states : list of State
        The gradients that were recorded, where that was asked for and there is no folder that they went to.
    """

    weights: torch.Tensor
    records: list[Record]
    diverged: int | None
    states: list[State] = dataclasses.field(default_factory=list, repr=False)

    def accuracy(self, last: int = LAST) -> float:
        """The mean accuracy of the last evaluations, 0 to 1: never the best one, nor that before the first round."""
        found = [float(record["accuracy"]) for record in last_trained(self.records, last)]
        return sum(found) / len(found)

    def reputation(self) -> Reputation:
        """The account of every worker over all rounds, for people to look at."""
        whole = Reputation()
        for record in self.records:
            whole.add(Reputation.restored(record.get("reputation", {})))
        return whole
