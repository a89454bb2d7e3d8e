"""`LocalSteps`: many steps on each rank by itself, then one outer step along what a rule makes of all the ways."""

from collections.abc import Callable
from typing import Any, final

import torch

from mixtailor._checks import refuse
from mixtailor.engines.distributed.optimizer import RobustOptimizer

__all__ = ["LocalSteps"]


@final
class LocalSteps(torch.optim.Optimizer):
    r"""H local steps, then an outer step along the aggregated pseudo-gradient, as in DiLoCo.

    .. math:: \theta_{t+1} = \mathrm{Outer}\bigl(\theta_t,\; R(\theta_t - \theta_t^{(1)}, \ldots,
        \theta_t - \theta_t^{(n)})\bigr)

    where :math:`\theta_t^{(i)}` is what rank i has after its H steps, and R is the rule. Ranks exchange updates once in
    H steps.

    Parameters
    ----------
    inner : torch.optim.Optimizer
        What steps locally; its state stays on its rank.
    outer : RobustOptimizer
        What steps along the aggregate, on the same parameters; DiLoCo has SGD with Nesterov momentum 0.9 and a learning
        rate of 0.7.
    every : int
        H, how many local steps there are.

    Attributes
    ----------
    steps : int
        How many local steps were taken.

    Examples
    --------
    >>> import mixtailor as mt
    >>> from mixtailor.engines.distributed import Peers
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    >>> outer = RobustOptimizer(torch.optim.SGD([weight], lr=0.5), Peers(mt.Comed()))
    >>> optimizer = LocalSteps(torch.optim.SGD([weight], lr=0.1), outer, every=2)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     weight.sum().backward()
    ...     optimizer.step()
    >>> weight.data  # two steps of 0.1, of which the outer learning rate keeps half
    tensor([0.9000, 1.9000])
    >>> torch.distributed.destroy_process_group()

    Notes
    -----
    Between outer steps the ranks' models differ. A step that the rule skips goes back to where the H steps began.
    Buffers such as running means are not exchanged. Checkpoint the model right after an outer step.

    References
    ----------
    .. [1] Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023,
       arXiv:2311.08105.
    """

    def __init__(self, inner: torch.optim.Optimizer, outer: RobustOptimizer, *, every: int) -> None:
        if every < 1:
            refuse(f"LocalSteps needs at least one local step, and every is {every}.")
        ours = [item for group in outer.param_groups for item in group["params"] if item.requires_grad]
        theirs = {item for group in inner.param_groups for item in group["params"] if item.requires_grad}
        if set(ours) != theirs:
            refuse("LocalSteps needs an inner and an outer optimizer on the same parameters.")
        super().__init__(inner.param_groups, inner.defaults)
        self.inner, self.outer, self.every = inner, outer, every
        self.steps = 0
        self._parameters = ours
        self._share()
        self._keep()

    def _share(self) -> None:
        self.state, self.param_groups = self.inner.state, self.inner.param_groups

    @torch.no_grad()
    def _keep(self) -> None:
        self._start = [item.detach().clone() for item in self._parameters]

    def step(self, closure: "Callable[[], Any] | None" = None) -> Any:
        """Take a local step; after every H of them, the outer step too."""
        if torch.compiler.is_compiling():  # ranks wait for one another here, which no graph can hold
            eager: Callable[..., Any] = torch.compiler.disable(self.step)  # type: ignore[no-untyped-call]  # torch's
            return eager(closure)
        loss = self.inner.step(closure) if closure is not None else self.inner.step()
        self.steps += 1
        if self.steps % self.every == 0:
            self._outer_step()
        return loss

    @torch.no_grad()
    def _outer_step(self) -> None:
        gradients = [item.grad for item in self._parameters]
        for item, start in zip(self._parameters, self._start, strict=True):
            item.grad = start - item
            item.copy_(start)
        self.outer.step()
        for item, gradient in zip(self._parameters, gradients, strict=True):
            item.grad = gradient
        self._keep()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.inner.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: both optimizers and the start of the local steps would have to change together."""
        if "inner" in self.__dict__:
            refuse("LocalSteps takes no further parameters. Make it again, with optimizers that have them.")
        super().add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        """The states of both optimizers, where the local steps began, and how many were taken."""
        inner, outer = self.inner.state_dict(), self.outer.state_dict()
        return {"inner": inner, "outer": outer, "start": self._start, "steps": self.steps}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state."""
        self.inner.load_state_dict(state_dict["inner"])
        self.outer.load_state_dict(state_dict["outer"])
        for start, kept in zip(self._start, state_dict["start"], strict=True):
            start.copy_(kept)
        self.steps = state_dict["steps"]
        self._share()
