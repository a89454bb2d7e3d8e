"""A communication hook for `DistributedDataParallel`, exact across buckets."""

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from mixtailor._checks import FaultError, refuse
from mixtailor.engines.distributed.peers import robust_all_reduce
from mixtailor.engines.distributed.wrappers import scaler_in_use, wrappers_of
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.request import KeySource, OnFault

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket
else:
    from torch.distributed import GradBucket  # not exported to type checkers, and DDP compares the annotation

__all__ = ["RobustHook", "protect"]


class RobustHook:
    """Aggregate gradients by a rule over the whole vector, where DDP hands them out bucket by bucket.

    A rule for each bucket is another rule: Krum on buckets can take each from another rank, and an update that is far
    away in one bucket only counts there alone. Buckets are kept until the last one is there, then aggregated as one
    vector. Nothing overlaps with the backward pass: that is what exactness costs.

    Parameters
    ----------
    rule : rule or callable
        What aggregates the gradients of the ranks.
    group : ProcessGroup, optional
        The group of the model; all ranks by default.
    entropy : KeySource, optional
        Where the first rank takes keys from: the rule's own source by default.
    on_fault : {"raise", "skip"}
        With "skip", a step with more proven faults than the rule tolerates has zero gradients. Where a `GradScaler` of
        this process is in use, either way it has gradients of NaN: the scaler skips the step and shrinks its scale.

    Attributes
    ----------
    last : Aggregation or None
        What happened in the last step; None where it had more faults than the rule tolerates.
    calls : int
        How often DDP has handed over the gradients of a step.

    Examples
    --------
    >>> import mixtailor as mt
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> hook = RobustHook(mt.Comed())
    >>> model.register_comm_hook(None, hook)
    >>> model(torch.ones(4, 2)).sum().backward()
    >>> hook.last.n, model.module.weight.grad
    (1, tensor([[4., 4.]]))
    >>> del model
    >>> import gc
    >>> freed = gc.collect()
    >>> dist.destroy_process_group()

    Notes
    -----
    Peers: sound against faulty gradients and poisoned data on honest hosts, not against a compromised rank. Unlike
    DDP's own hooks it divides by nothing, since a rule's result is an update already. Buckets of several types are
    aggregated in the widest of them. Sparse gradients are refused. A rank that is late is waited for until the group's
    timeout, and is not quarantined; then the backward pass of the others raises. Drop the DDP model before
    `destroy_process_group`, as the example does.
    """

    def __init__(
        self,
        rule: Any,
        group: "dist.ProcessGroup | None" = None,
        *,
        entropy: KeySource | None = None,
        on_fault: OnFault = "raise",
    ) -> None:
        self.rule, self.group, self.entropy = rule, group, entropy
        self.on_fault: OnFault = on_fault
        self.last: Aggregation | None = None
        self.calls = 0
        self.__name__ = self.__qualname__ = type(self).__name__  # DDP notes down which function its hook is
        self._held: list[tuple[torch.Tensor, torch.futures.Future[torch.Tensor]]] = []

    def __call__(self, state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        if bucket.index() == 0:
            self._held = []  # a step that failed half-way leaves nothing behind
        buffer = bucket.buffer()
        if buffer.layout is not torch.strided:
            shape = tuple(bucket.parameters()[0].shape)
            refuse(
                f"RobustHook needs dense gradients, and that of a parameter of shape {shape} is {buffer.layout}. An "
                "embedding gives dense ones with sparse=False."
            )
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self._held.append((buffer, future))
        if bucket.is_last():
            held, self._held = self._held, []
            self.calls += 1
            self._aggregate(held)
        return future

    def _reduced(self, vector: torch.Tensor) -> Aggregation | None:
        """Replace this rank's gradient by the aggregate; a subclass may do it in another way."""
        return robust_all_reduce(vector, self.rule, self.group, entropy=self.entropy, on_fault=self.on_fault)

    def _aggregate(self, held: "list[tuple[torch.Tensor, torch.futures.Future[torch.Tensor]]]") -> None:
        kind = held[0][0].dtype
        for buffer, _ in held:
            kind = torch.promote_types(kind, buffer.dtype)
        vector = torch.cat([buffer.to(kind) for buffer, _ in held])
        try:
            self.last = self._reduced(vector)
            skipped = self.last is None or self.last.update is None
        except FaultError:
            if not scaler_in_use():
                raise
            self.last, skipped = None, True
        if skipped and scaler_in_use():
            # Dynamic scaling provokes overflows, and learns from them: the scaler must see one on every rank.
            vector.fill_(float("nan"))
        parts = torch.split(vector, [buffer.numel() for buffer, _ in held])
        for (buffer, future), part in zip(held, parts, strict=True):
            buffer.copy_(part)
            future.set_result(buffer)


# What `protect` has registered: a wrapper takes one hook, once, and frameworks keep wrappers of earlier trainings.
_PROTECTED: WeakKeyDictionary[DistributedDataParallel, RobustHook] = WeakKeyDictionary()


def protect(
    model: torch.nn.Module,
    rule: Any,
    *,
    entropy: KeySource | None = None,
    on_fault: OnFault = "raise",
) -> RobustHook:
    """Register a `RobustHook` on the `DistributedDataParallel` module that a framework has wrapped a model in.

    Parameters
    ----------
    model : Module
        The model, or whatever the framework made of it.
    rule, entropy, on_fault
        As for `RobustHook`.

    Returns
    -------
    RobustHook
        Its `last` says what happened in each step.

    Examples
    --------
    >>> import mixtailor as mt
    >>> protect(torch.nn.Linear(2, 1), mt.Comed())
    Traceback (most recent call last):
    ValueError: protect needs a model inside DistributedDataParallel, and no such module of this process holds this ...

    Notes
    -----
    Call it after the framework has wrapped the model and before the first step. It raises where there is nothing to
    register on (one process, FSDP, DeepSpeed), where several wrappers that it does not know hold the model, and where
    another hook is registered. A model that is trained again keeps its hook, with the new rule: in the same wrapper, in
    a new one, and in those of earlier trainings. Whether a step went through the hook is in `hook.calls`.
    """
    wrappers = wrappers_of(model)
    new = [wrapper for wrapper in wrappers if wrapper not in _PROTECTED]
    if len(new) > 1:
        refuse(
            f"protect needs the one module that averages these gradients, and {len(new)} hold this model. Drop those "
            "of earlier trainings, or give the wrapper that trains."
        )
    group = (new or wrappers)[0].process_group
    known = [hook for hook in map(_PROTECTED.get, wrappers) if hook is not None and hook.group is group]
    hook = known[0] if known else RobustHook(rule, group)
    hook.rule, hook.entropy, hook.on_fault, hook.last, hook.calls = rule, entropy, on_fault, None, 0
    for wrapper in new:
        wrapper.register_comm_hook(None, hook)
        _PROTECTED[wrapper] = hook
    return hook
