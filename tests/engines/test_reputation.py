"""The aggregator tells an account of its workers what happened, round by round."""

from typing import Any

import numpy as np
import torch

import mixtailor as mt
from mixtailor.engines.distributed.aggregator import Aggregator
from mixtailor.engines.distributed.line import LATE, SOUND


class Alone(Aggregator):
    """Without the lines: rows are there, and answers go nowhere."""

    def put(self, rows: np.ndarray[Any, Any], late: tuple[int, ...] = ()) -> None:
        self._rows[:] = torch.from_numpy(rows)
        self._late = late

    def _collect(self) -> Any:
        return np.array([LATE if worker in self._late else SOUND for worker in range(len(self.lines))])

    def _tell(self, answer: torch.Tensor | None) -> None:
        pass


def test_rounds_faults_and_lateness_are_counted() -> None:
    rows = np.random.default_rng(0).normal(size=(9, 20)).astype(np.float32)
    reputation = mt.Reputation()
    aggregator = Alone(mt.Krum(2), 20, [None] * 9, reputation=reputation)  # type: ignore[list-item]
    for round in range(4):
        sent = rows.copy()
        sent[2] = np.nan if round == 1 else sent[2]
        aggregator.put(sent, late=(5,) if round >= 2 else ())
        aggregator.step()
    assert [reputation[worker].rounds for worker in range(9)] == [4] * 9
    assert [reputation[worker].quarantined for worker in range(9)] == [0, 0, 1, 0, 0, 2, 0, 0, 0]
    assert sum(reputation[worker].selected for worker in range(9)) == 4
    assert reputation[0].measured == 4
