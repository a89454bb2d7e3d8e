"""`RobustOptimizer`: any optimizer, with gradients that a rule has aggregated over the ranks."""

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Protocol, final

import numpy as np
import torch

from mixtailor._checks import FaultError, refuse
from mixtailor._types import Integers
from mixtailor.engines.distributed.peers import reduced
from mixtailor.engines.distributed.ranks import Ranks
from mixtailor.engines.distributed.wrappers import averaging, is_dtensor
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.request import KeySource, OnFault

__all__ = ["Exchange", "RobustOptimizer"]


class Exchange(Protocol):
    """Who aggregates by which rule: `Peers`, or `Replicas` where models are sharded."""

    @property
    def rule(self) -> Any: ...
    @property
    def entropy(self) -> KeySource | None: ...
    @property
    def on_fault(self) -> OnFault: ...
    def ranks(self) -> Ranks: ...
    def local(self, parameter: torch.Tensor, name: str) -> torch.Tensor: ...


@final
class RobustOptimizer(torch.optim.Optimizer):
    """An optimizer that steps along the gradient which a rule has aggregated over all ranks.

    Every rank holds the same model and optimizer and takes the same steps, since all get the same aggregate. Wrap the
    optimizer, and the training loop stays as it is: learning-rate schedulers, `GradScaler`, gradient accumulation,
    closures, hooks and checkpoints work as with the optimizer inside, which shares its state and parameter groups.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        What steps. One that calls its closure several times, as LBFGS does, is refused.
    exchange : Exchange
        `Peers(rule)`, or `Replicas(rule, mesh)` for sharded models.
    max_norm : float, optional
        Clip the aggregated gradient to this length. (`clip_grad_norm_` before `step` clips what this rank sends.)
    same_data : bool
        Whether all ranks read the same data on purpose, so that equal gradients prove nothing.

    Attributes
    ----------
    last : Aggregation or None
        What happened in the last step.
    skipped : int
        How many steps were left out because more updates were faulty than the rule tolerates.

    Examples
    --------
    >>> import mixtailor as mt
    >>> from mixtailor.engines.distributed import Peers
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    >>> optimizer = RobustOptimizer(torch.optim.SGD([weight], lr=0.5), Peers(mt.Comed()))
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight.data
    tensor([0.5000, 1.5000])
    >>> torch.distributed.destroy_process_group()

    Notes
    -----
    The gradients of a model inside `DistributedDataParallel` are averaged before any rule sees them, so such a model is
    refused. The optimizer looks for a live DDP or FSDP module that holds one of its parameters, and compares the
    gradients of all ranks bit by bit. It does so when it is made and at the steps 1, 2, 4, 8 and so on. Gradients that
    are zero or not finite are not compared, and the next step is checked instead. It does not detect averaging by other
    means that leaves different bits on the ranks.

    A parameter without a gradient on all ranks keeps `grad` None, so that no optimizer moves it. Where some ranks
    have a gradient, it counts as zero on the others.

    With `GradScaler` each rank has a scale of its own and sends unscaled gradients. Ranks whose gradients overflow are
    quarantined; where they are more than the rule tolerates, the step is skipped and their scales shrink.
    """

    _step_supports_amp_scaling = True  # GradScaler then calls `step` on all ranks, also where this one overflows
    optimizer: torch.optim.Optimizer

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        exchange: Exchange,
        *,
        max_norm: float | None = None,
        same_data: bool = False,
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(
                f"RobustOptimizer needs an optimizer and got {type(optimizer).__name__}. "
                "Write RobustOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), Peers(rule))."
            )
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            refuse(
                f"RobustOptimizer needs an optimizer that steps by gradients alone, and {type(optimizer).__name__} "
                "calls a closure as often as this rank's own loss demands: ranks would wait for one another for ever."
            )
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self.optimizer, self.exchange = optimizer, exchange
        self.max_norm, self.same_data = max_norm, same_data
        self.last: Aggregation | None = None
        self.skipped = 0
        self._checked = 0  # steps whose gradients could be compared between ranks
        self._share()
        self._refuse_wrapped()

    def _share(self) -> None:
        """Hold the state and the groups of the optimizer inside, which `load_state_dict` replaces."""
        self.state, self.param_groups = self.optimizer.state, self.optimizer.param_groups

    def _refuse_wrapped(self) -> None:
        wrappers = averaging(item for group in self.param_groups for item in group["params"])
        if wrappers:
            refuse(
                "RobustOptimizer needs gradients that are not yet averaged, and a "
                f"{type(wrappers[0]).__name__} module averages these. Train the module inside it, or keep it and "
                "register RobustHook. (For sharded models: fully_shard and Replicas.)"
            )

    def step(self, closure: "Callable[[], Any] | None" = None) -> Any:
        """Aggregate, then step; a closure computes the gradients first, and is called once."""
        if torch.compiler.is_compiling():  # ranks wait for one another here, which no graph can hold
            eager: Callable[..., Any] = torch.compiler.disable(self.step)  # type: ignore[no-untyped-call]  # torch's
            return eager(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._share()
        if self._aggregate():
            if self.max_norm is not None:
                torch.nn.utils.clip_grad_norm_([item for _, item in self._parameters()], self.max_norm)
            self.optimizer.step()
        else:
            self.skipped += 1
        return loss

    def _parameters(self) -> list[tuple[str, torch.Tensor]]:
        found = []
        for place, group in enumerate(self.param_groups):
            names = group.get("param_names") or [
                f"parameter {at} of group {place}, of shape {tuple(item.shape)},"
                for at, item in enumerate(group["params"])
            ]
            found += [(name, item) for name, item in zip(names, group["params"], strict=True) if item.requires_grad]
        return found

    @torch.no_grad()
    def _aggregate(self) -> bool:
        """Replace all gradients by the aggregate; False if the step is to be skipped."""
        if self._due:
            self._refuse_wrapped()  # a wrapper that was made after this optimizer
        named, ranks = self._parameters(), self.exchange.ranks()
        used = np.array([item.grad is not None for _, item in named])
        vector = self._flat(named)
        scale = getattr(self, "grad_scale", None)  # GradScaler sets it, where gradients are not yet unscaled
        if scale is not None:
            vector /= scale.to(vector.device, vector.dtype)
        self.last = None
        try:
            words = (_number(used.tobytes()), len(used), self._print(vector))
            exchange = self.exchange
            self.last, told = reduced(
                vector, exchange.rule, ranks, entropy=exchange.entropy, on_fault=exchange.on_fault, words=words
            )
        except FaultError:
            if not hasattr(self, "found_inf"):  # GradScaler sets it, and expects overflows
                raise
            return False
        self._refuse_equal(told[:, 2], ranks)
        if self.last.update is None:
            return False
        self._write(named, vector, _used_by_any(used, told, ranks))
        return True

    def _flat(self, named: list[tuple[str, torch.Tensor]]) -> torch.Tensor:
        """What this rank holds of all gradients, as one vector in the widest of their types."""
        parts = []
        for name, item in named:
            own = self.exchange.local(item, name)
            if item.grad is None:
                parts.append(torch.zeros_like(own))
                continue
            if item.grad.layout is not torch.strided:
                refuse(
                    f"RobustOptimizer needs dense gradients, and that of {name} is {item.grad.layout}. An embedding "
                    "gives dense ones with sparse=False."
                )
            parts.append(self.exchange.local(item.grad, name))
        if not parts:  # all are frozen here: still sent, since the other ranks wait for it
            return torch.zeros(0)
        kind = parts[0].dtype
        for part in parts:
            kind = torch.promote_types(kind, part.dtype)
        return torch.cat([part.reshape(-1).to(kind) for part in parts])

    def _write(self, named: list[tuple[str, torch.Tensor]], vector: torch.Tensor, used: Sequence[bool]) -> None:
        at = 0
        for (name, item), in_use in zip(named, used, strict=True):
            own = self.exchange.local(item, name)
            part = vector[at : at + own.numel()].view(own.shape)
            at += own.numel()
            if not in_use:
                continue
            if item.grad is None:
                item.grad = torch.zeros_like(item)
            (item.grad.to_local() if is_dtensor(item.grad) else item.grad).copy_(part)  # type: ignore[attr-defined]  # DTensor's

    @property
    def _due(self) -> bool:
        """Whether this step is checked: a wrapper may be made late, and checking every step would take too long."""
        return (self._checked + 1) & self._checked == 0

    def _print(self, vector: torch.Tensor) -> int:
        """A number for these bits at a step that is checked, or 0. Overflows are often the same bits on all ranks."""
        if not self._due or self.same_data or not bool(vector.any()) or not bool(vector.isfinite().all()):
            return 0
        return _number(vector.cpu().view(torch.uint8).numpy().tobytes())

    def _refuse_equal(self, prints: Integers, ranks: Ranks) -> None:
        """Refuse gradients that are the same on all ranks which hold the same coordinates."""
        due, updates = self._due, ranks.lane.count
        if due and not self.same_data and not prints.any():
            return  # nothing to compare: the next step is checked
        self._checked += 1
        if not due or self.same_data or updates == 1:
            return
        by_shard: dict[int, set[int]] = {}
        for (_, shard), number in zip(ranks.seats, prints.tolist(), strict=True):
            by_shard.setdefault(shard, set()).add(number)
        if all(len(numbers) == 1 for numbers in by_shard.values()):
            refuse(
                f"All {updates} updates of this step are the same, bit for bit. Either they were averaged before this "
                "optimizer saw them, so that no rule can protect them, or all ranks read the same data. Give each rank "
                "its own part of the data, or say same_data=True if that is intended."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        made = {"skipped": self.skipped, "last": self.last, "_checked": self._checked}
        return _made, (self.optimizer, self.exchange, self.max_norm, self.same_data, made)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        self.optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters to the optimizer inside."""
        if "optimizer" not in self.__dict__:  # torch's constructor calls this, for groups that are there
            super().add_param_group(param_group)
            return
        self.optimizer.add_param_group(param_group)
        self._share()

    def state_dict(self) -> dict[str, Any]:
        """The state of the optimizer inside: checkpoints can be exchanged with those of a plain run."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state."""
        self.optimizer.load_state_dict(state_dict)
        self._share()


def _made(
    optimizer: torch.optim.Optimizer, exchange: Exchange, max_norm: float | None, same_data: bool, state: dict[str, Any]
) -> RobustOptimizer:
    found = RobustOptimizer(optimizer, exchange, max_norm=max_norm, same_data=same_data)
    found.__dict__.update(state)
    return found


def _used_by_any(used: Any, told: Integers, ranks: Ranks) -> Sequence[bool]:
    """Which parameters have a gradient on any rank. Ranks exchange the full list only where its hashes differ."""
    if (told[:, 0] == told[0, 0]).all():
        return [bool(one) for one in used]
    counts = told[:, 1].tolist()
    most, _ = Counter(counts).most_common(1)[0]
    own = used if len(used) == most else np.zeros(most, bool)  # such a rank is quarantined, and raises
    bits = np.packbits(np.pad(own, (0, -most % 64))).view(np.int64)
    every = np.unpackbits(ranks.gathered(bits).view(np.uint8), axis=1)[:, :most]
    return [bool(one) for one in np.atleast_1d(every.any(axis=0))]


def _number(content: bytes) -> int:
    """A number of 63 bits, from 1, for some bytes."""
    return max(1, int.from_bytes(sha256(content).digest()[:8], "big") >> 1)
