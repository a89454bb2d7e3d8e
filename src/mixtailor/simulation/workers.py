"""What the workers compute in a round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from mixtailor.simulation.batches import Batches
from mixtailor.simulation.gradients import WorkerGradients
from mixtailor.simulation.local import LocalTraining
from mixtailor.simulation.sparse import SparseBatch
from mixtailor.simulation.streams import stream, stream_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from mixtailor.simulation.data import Dataset
    from mixtailor.simulation.partitions import Parts
    from mixtailor.simulation.settings import Settings

    Partition = Callable[[npt.NDArray[np.integer], int, np.random.Generator], Parts]
    Labels = Callable[[torch.Tensor], torch.Tensor]

__all__ = ["Workers"]


class Workers:
    """Each worker's part of the data, its batches, and the rows that it would correctly send.

    Which examples a worker uses in which round follows from the seed, the worker and the round alone: runs that differ
    in their rule or attack share them. Worker number n is the server itself, with its own few clean examples. Behind it
    come the workers that the server simulates on these examples, each with batches of its own.

    Parameters
    ----------
    gradients : WorkerGradients
        The network and its loss.
    data : Dataset
    partition : callable
        ``partition(labels, workers, random)``, one of those in `mixtailor.simulation.partitions` or alike.
    settings : Settings
    without_data : sequence of int
        Workers that hold no examples, and compute nothing.
    flip : callable, optional
        What the labels of poisoned workers pass through.
    simulated : int
        How many workers the server simulates.
    """

    def __init__(
        self,
        gradients: WorkerGradients,
        data: Dataset,
        partition: Partition,
        settings: Settings,
        *,
        without_data: Sequence[int] = (),
        flip: Labels | None = None,
        simulated: int = 0,
    ) -> None:
        self.data, self.settings, self.flip = data, settings, flip
        self.simulated = range(settings.n + 1, settings.n + 1 + simulated)
        holders = [worker for worker in range(settings.n) if worker not in set(without_data)]
        labels = data.train_labels.cpu().numpy()
        dealt = partition(labels, len(holders), stream(settings.seed, "partition"))
        root = stream(settings.seed, "root").permutation(len(data))[: settings.root]
        # A worker without examples is never asked; one index stands for them, since a batch needs some.
        parts: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64) for _ in range(settings.n)]
        for worker, part in zip(holders, dealt, strict=True):
            parts[worker] = part
        self.batches = Batches([*parts, root, *[root] * simulated], size=settings.batch, seed=settings.seed)
        self._gradients = gradients
        self._sparse = data.sparse if gradients.takes_sparse else None
        self._room: dict[str, torch.Tensor] = {}
        self._local = LocalTraining(
            gradients,
            learning_rate=settings.local_learning_rate,
            momentum=settings.local_momentum,
            weight_decay=settings.weight_decay,
        )
        self.momenta: torch.Tensor | None = None
        if settings.worker_momentum:
            # Of the server too: its own updates have to be of the kind that the workers send.
            shape = (settings.n + 1 + simulated, gradients.layout.d)
            self.momenta = torch.zeros(shape, dtype=gradients.layout.dtype, device=data.train_labels.device)

    def rows(
        self,
        weights: torch.Tensor,
        round: int,
        workers: Sequence[int],
        poisoned: Sequence[int] = (),
        out: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What `workers` send, ``(k, d)``, and their losses ``(k,)``, in a buffer that the next call overwrites.

        Parameters
        ----------
        weights : torch.Tensor
            The server's, ``(d,)``.
        round : int
            Its number.
        workers : sequence of int
            Who computes, in the order of the rows.
        poisoned : sequence of int
            Those of them that learn from flipped labels.
        out : torch.Tensor, optional
            The first k rows of it are that buffer, where gradients are sent as they are.
        """
        if self.settings.sends == "gradients":
            inputs, labels = self._batch(round, workers, poisoned)
            seed = None if isinstance(inputs, SparseBatch) else stream_seed(self.settings.seed, "dropout", round)
            into = None if out is None else out[: len(workers)]
            rows, losses = self._gradients(weights, inputs, labels, seed=seed, out=into)
            if self.momenta is not None:
                places = torch.as_tensor(np.asarray(workers), device=rows.device)
                beta = self.settings.worker_momentum
                rows = self.momenta[places].mul_(beta).add_(rows, alpha=1 - beta)
                self.momenta[places] = rows
            return rows, losses
        seed, tau = stream_seed(self.settings.seed, "dropout", round), self.settings.local_steps
        steps = (self._dense_batch(round * tau + step, workers, poisoned) for step in range(tau))
        models, losses = self._local(weights, steps, seed=seed)
        return (models if self.settings.sends == "models" else models.sub_(weights)), losses.mean(1)

    def _batch(
        self, number: int, workers: Sequence[int], poisoned: Sequence[int]
    ) -> tuple[torch.Tensor | SparseBatch, torch.Tensor]:
        if self._sparse is None:
            return self._dense_batch(number, workers, poisoned)
        chosen = self.batches(number, workers)
        labels = self.data.train_labels[torch.from_numpy(chosen)]
        return SparseBatch(self._sparse, chosen, self._room), self._flipped(labels, workers, poisoned)

    def _dense_batch(
        self, number: int, workers: Sequence[int], poisoned: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, labels = self.data.train(self.batches(number, workers))
        return inputs, self._flipped(labels, workers, poisoned)

    def _flipped(self, labels: torch.Tensor, workers: Sequence[int], poisoned: Sequence[int]) -> torch.Tensor:
        if self.flip is None or not poisoned:
            return labels
        wrong = torch.as_tensor(np.isin(np.asarray(workers), np.asarray(poisoned)), device=labels.device)
        return torch.where(wrong.unsqueeze(1), self.flip(labels), labels)
