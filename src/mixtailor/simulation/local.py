"""Local training: several steps on each worker before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mixtailor.simulation.randomness import seeded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixtailor.simulation.gradients import WorkerGradients

__all__ = ["LocalTraining"]


class LocalTraining:
    r"""Each worker's model after tau steps of SGD from the same start, on its own batches.

    .. math::
        v \leftarrow \mu v + \nabla F_i(w) + \lambda w, \qquad w \leftarrow w - \eta v

    Workers are computed together, as in `WorkerGradients`; what they send is the model, or its difference to the start.

    Parameters
    ----------
    gradients : WorkerGradients
        The network and its loss.
    learning_rate : float
        eta.
    momentum : float
        mu; it begins at zero in every call, since it does not outlive a round.
    weight_decay : float
        lambda.

    Examples
    --------
    >>> from mixtailor.simulation import Layout, WorkerGradients, logistic, synthetic
    >>> data, model = synthetic(), logistic((20,), 10)
    >>> train = LocalTraining(WorkerGradients(model), learning_rate=0.1)
    >>> start = Layout.of(model).flatten(model)
    >>> models, losses = train(start, [data.train([[0, 1], [2, 3]]), data.train([[4, 5], [6, 7]])])
    >>> models.shape, losses.shape
    (torch.Size([2, 210]), torch.Size([2, 2]))

    References
    ----------
    .. [1] McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017.
    """

    def __init__(
        self, gradients: WorkerGradients, *, learning_rate: float, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        if not learning_rate > 0 or not 0 <= momentum < 1 or not weight_decay >= 0:
            raise ValueError(
                "Local training needs learning_rate > 0, 0 <= momentum < 1 and weight_decay >= 0, and got "
                f"{learning_rate}, {momentum} and {weight_decay}."
            )
        self.gradients = gradients
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay

    def __call__(
        self,
        weights: torch.Tensor,
        batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
        *,
        seed: int | None = None,
        out: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The models ``(n, d)`` and the losses ``(n, tau)`` before each step.

        Parameters
        ----------
        weights : torch.Tensor
            ``(d,)``, where everybody starts.
        batches : iterable of (inputs, labels)
            One pair for each of the tau steps, ``(n, batch, ...)`` and ``(n, batch)``; a generator keeps memory low.
        seed : int, optional
            For dropout, as in `WorkerGradients`.
        out : torch.Tensor, optional
            ``(n, d)``, where the models are written.
        """
        models: torch.Tensor | None = None
        velocity: torch.Tensor | None = None
        losses = []
        with seeded(seed, weights.device):
            for inputs, labels in batches:
                # The first step is everybody's at one point, which is faster.
                slopes, loss = self.gradients(weights if models is None else models, inputs, labels)
                losses.append(loss)
                if models is None:
                    models = torch.empty_like(slopes) if out is None else out
                    models.copy_(weights.expand_as(slopes))
                if self.weight_decay:
                    slopes.add_(models, alpha=self.weight_decay)
                if self.momentum:
                    velocity = slopes.clone() if velocity is None else velocity.mul_(self.momentum).add_(slopes)
                models.sub_(slopes if velocity is None else velocity, alpha=self.learning_rate)
        if models is None:
            raise ValueError("Local training needs at least 1 step (tau >= 1) and got no batches.")
        return models, torch.stack(losses, dim=1)
