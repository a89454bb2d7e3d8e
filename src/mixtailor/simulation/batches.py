"""Which examples each worker uses in which round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixtailor.simulation.streams import stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = ["Batches"]


class Batches:
    """Batches of the workers' own examples, each example once per epoch, in an order drawn again for each epoch.

    Worker i reads an endless sequence: its examples in one random order, then in another. Batch number t is the t-th
    run of `size` of them, so a batch may end one epoch and begin the next, and a worker with fewer examples than
    `size` sees them several times. Which examples these are depends on the seed, the worker and t alone: a resumed run
    needs no state.

    Parameters
    ----------
    parts : sequence of arrays
        The indices that each worker holds, as a partition gives them.
    size : int
        Examples per batch.
    seed : int
        The seed of the run.

    Examples
    --------
    >>> batches = Batches([[0, 1, 2, 3], [4, 5, 6]], size=2, seed=0)
    >>> batches(0).shape
    (2, 2)
    >>> sorted(np.concatenate([batches(0)[0], batches(1)[0]]))
    [np.int64(0), np.int64(1), np.int64(2), np.int64(3)]
    """

    def __init__(self, parts: Sequence[npt.ArrayLike], *, size: int, seed: int) -> None:
        self.parts = [np.asarray(part, np.int64) for part in parts]
        self.size = size
        self.seed = seed
        if size < 1:
            raise ValueError(f"A batch needs at least 1 example and got size={size}.")
        if empty := [worker for worker, part in enumerate(self.parts) if not len(part)]:
            raise ValueError(f"Each worker needs at least 1 example, and workers {empty} have none.")
        self._epochs: dict[int, tuple[int, npt.NDArray[np.int64]]] = {}

    def __call__(self, number: int, workers: Sequence[int] | None = None) -> npt.NDArray[np.int64]:
        """The indices ``(workers, size)`` of batch `number` of all workers, or of those named."""
        chosen = range(len(self.parts)) if workers is None else workers
        batch = np.empty((len(chosen), self.size), np.int64)
        start = number * self.size
        for row, worker in enumerate(chosen):
            epoch, place = divmod(start, len(self.parts[worker]))
            if place + self.size <= len(self.parts[worker]):
                batch[row] = self._order(worker, epoch)[place : place + self.size]
            else:
                self._fill(batch[row], worker, start)
        return batch

    def _fill(self, row: npt.NDArray[np.int64], worker: int, position: int) -> None:
        length = len(self.parts[worker])
        filled = 0
        while filled < self.size:
            epoch, start = divmod(position + filled, length)
            run = self._order(worker, epoch)[start : start + self.size - filled]
            row[filled : filled + len(run)] = run
            filled += len(run)

    def _order(self, worker: int, epoch: int) -> npt.NDArray[np.int64]:
        held = self._epochs.get(worker)
        if held is None or held[0] != epoch:
            order = stream(self.seed, "batches", worker, epoch).permutation(self.parts[worker])
            self._epochs[worker] = held = (epoch, order)
        return held[1]
