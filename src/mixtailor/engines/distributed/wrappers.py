"""What else in this process takes part in training: wrappers that average gradients, loss scalers, sharded tensors.

Python's list of live objects is searched for them. They are not asked for as arguments, since who forgets to give one
would not be protected and would not notice.
"""

import gc
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.nn.parallel import DistributedDataParallel

from mixtailor._checks import refuse

__all__ = ["averaging", "is_dtensor", "scaler_in_use", "wrappers_of"]


def _live(kind: type) -> Iterator[Any]:
    # `type` and not `isinstance`, which would ask objects for their class: some load a package then.
    return (item for item in gc.get_objects() if issubclass(type(item), kind))


def averaging(parameters: Iterable[torch.Tensor]) -> list[torch.nn.Module]:
    """The live wrappers that average the gradients of one of these parameters by themselves.

    Examples
    --------
    >>> averaging(torch.nn.Linear(2, 1).parameters())
    []
    """
    ours = {id(item) for item in parameters}
    kinds: list[type[torch.nn.Module]] = [DistributedDataParallel]
    fsdp = sys.modules.get("torch.distributed.fsdp")  # where nobody has imported it, there is none
    if fsdp is not None:
        kinds.append(fsdp.FullyShardedDataParallel)
    return [
        module
        for kind in kinds
        for module in _live(kind)
        # Half made, it has no parameters yet, nor has one that failed while it was made.
        if "_parameters" in module.__dict__ and any(id(item) in ours for item in module.parameters())
    ]


def wrappers_of(model: torch.nn.Module) -> list[DistributedDataParallel]:
    """The `DistributedDataParallel` modules that may train a model: those inside what is given, or around it.

    Examples
    --------
    >>> wrappers_of(torch.nn.Linear(2, 1))
    Traceback (most recent call last):
    ValueError: protect needs a model inside DistributedDataParallel, and no such module of this process holds this ...
    """
    inside: list[torch.nn.Module] = [item for item in model.modules() if isinstance(item, DistributedDataParallel)]
    found = inside or averaging(model.parameters())
    if len(found) > 1:
        gc.collect()  # a wrapper of an earlier training may be left in a cycle
        found = inside or averaging(model.parameters())
    others = [type(item).__name__ for item in found if not isinstance(item, DistributedDataParallel)]
    if not found or others:
        holder = f"a {others[0]} does" if others else "no such module of this process holds this one"
        refuse(
            f"protect needs a model inside DistributedDataParallel, and {holder}. Start several processes and call it "
            "after the model was wrapped; for sharded models see Replicas."
        )
    return [item for item in found if isinstance(item, DistributedDataParallel)]


def scaler_in_use() -> bool:
    """Whether a `GradScaler` of this process has scaled a loss.

    Examples
    --------
    >>> scaler_in_use()
    False
    >>> scaler = torch.amp.GradScaler("cpu")
    >>> scaled = scaler.scale(torch.ones(()))
    >>> scaler_in_use()
    True
    >>> del scaler
    """
    # The scale is made by the first call of `scale`.
    return any(item.is_enabled() and item._scale is not None for item in _live(GradScaler))


def is_dtensor(tensor: torch.Tensor) -> bool:
    """Whether a tensor is distributed over a device mesh.

    Examples
    --------
    >>> is_dtensor(torch.ones(2))
    False
    """
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)
