"""The server: the weights, and the step that it takes with a rule's result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from mixtailor.simulation.settings import Settings

__all__ = ["Server"]


class Server:
    """Weights and velocity; `step` moves them by a result.

    Parameters
    ----------
    weights : torch.Tensor
        ``(d,)``, where training starts; it is copied.
    settings : Settings

    Examples
    --------
    >>> from mixtailor.simulation import Settings
    >>> server = Server(torch.tensor([1.0]), Settings(learning_rate=0.5, momentum=0.0, weight_decay=0.0))
    >>> server.step(torch.tensor([1.0]), 0)
    >>> server.weights
    tensor([0.5000])

    An aggregate of models is the next model, whatever the learning rate.

    >>> server = Server(torch.tensor([1.0]), Settings(sends="models"))
    >>> server.step(torch.tensor([3.0]), 0)
    >>> server.weights
    tensor([3.])
    """

    def __init__(self, weights: torch.Tensor, settings: Settings) -> None:
        self.weights = weights.detach().clone()
        self.velocity = torch.zeros_like(self.weights) if settings.momentum else None
        self.settings = settings

    def learning_rate(self, round: int) -> float:
        """eta in a round."""
        return self.settings.learning_rate * self.settings.rate(round, self.settings.rounds)

    def step(self, result: torch.Tensor, round: int) -> None:
        """Take one step with a rule's result. Deltas, and models that do not replace the server's, are converted to a
        descent direction first.
        """
        settings = self.settings
        if settings.sends == "models" and settings.replaces_model:
            self.weights.copy_(result)
            return
        if settings.sends == "models":
            slope = self.weights - result
        elif settings.sends == "deltas":
            slope = -result
        else:
            slope = result.add(self.weights, alpha=settings.weight_decay) if settings.weight_decay else result
        if self.velocity is not None:
            velocity = self.velocity.mul_(settings.momentum).add_(slope)
            slope = slope.add(velocity, alpha=settings.momentum) if settings.nesterov else velocity
        self.weights.sub_(slope, alpha=self.learning_rate(round))
