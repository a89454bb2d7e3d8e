"""`RobustOptimizer`: any optimizer, with gradients that a rule has aggregated over the ranks."""

from collections.abc import Callable
from typing import Any, Protocol

import torch

__all__ = ["Exchange", "RobustOptimizer"]


class Exchange(Protocol):
    """Something that turns this rank's vector into the answer for all, as `Peers` does."""

    def exchange(self, vector: torch.Tensor) -> torch.Tensor | None: ...


class RobustOptimizer:
    """Between backward and step: flatten the gradients, exchange them, write the answer back.

    Every rank holds the same model and optimizer and takes the same steps, since all get the same answer. Wrap the
    optimizer, and the training loop stays as it is.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
    exchange : Exchange
        `Peers(rule)`.

    Attributes
    ----------
    skipped : int
        How many steps were left out because more rows were faulty than the rule withstands.

    Examples
    --------
    >>> class Halved:
    ...     def exchange(self, vector):
    ...         return vector / 2
    >>> weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    >>> optimizer = RobustOptimizer(torch.optim.SGD([weight], lr=1.0), Halved())
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.data
    tensor([0.5000, 1.5000])
    """

    def __init__(self, optimizer: torch.optim.Optimizer, exchange: Exchange) -> None:
        self.optimizer, self.peers = optimizer, exchange
        self.skipped = 0

    def step(self, closure: "Callable[[], Any] | None" = None) -> Any:
        """Aggregate, then step; a closure computes the gradients first, and is called once."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._aggregate():
            self.optimizer.step()
        else:
            self.skipped += 1
        return loss

    @torch.no_grad()
    def _aggregate(self) -> bool:
        parameters = [item for group in self.optimizer.param_groups for item in group["params"] if item.requires_grad]
        # A parameter that this rank's batch did not reach has a gradient of zero: vectors are of one length everywhere.
        gradients = [torch.zeros_like(item) if item.grad is None else item.grad for item in parameters]
        kind = gradients[0].dtype
        for gradient in gradients:
            kind = torch.promote_types(kind, gradient.dtype)
        vector = torch.cat([gradient.reshape(-1).to(kind) for gradient in gradients])
        answer = self.peers.exchange(vector)
        if answer is None:
            return False
        for item, part in zip(parameters, torch.split(answer, [item.numel() for item in parameters]), strict=True):
            item.grad = part.view(item.shape).to(item.dtype)
        return True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The wrapped optimizer's state."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.optimizer.load_state_dict(state)
