"""Rules for torchft: replicas that fail, leave and join, and replicas whose gradients are silently wrong.

Read the threat model first, in docs/engines/torchft.md: silent data corruption on honest hosts, not a compromised rank.
"""

import logging
from typing import Any, final

import torch

from mixtailor._checks import refuse
from mixtailor.engines.distributed import RobustHook, robust_all_reduce
from mixtailor.memory import Memory
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import Rule
from mixtailor.rules.plain import as_rule
from mixtailor.rules.request import KeySource

try:
    from torchft.manager import Manager
    from torchft.process_group import ProcessGroupDummy, ProcessGroupWrapper
except ImportError:  # pragma: no cover  # with torchft installed, nothing to see
    from mixtailor._checks import MissingPackageError

    raise MissingPackageError("The torchft adapter", "torchft", "torchft") from None

__all__ = ["RobustDistributedDataParallel", "managed_all_reduce"]

_log = logging.getLogger("torchft.mixtailor")  # a child of torchft's own logger


def managed_all_reduce(
    tensor: torch.Tensor, rule: Any, manager: Manager, *, entropy: KeySource | None = None
) -> Aggregation | None:
    """Replace every replica's tensor by the rule's result on all of the quorum: `manager.allreduce` by a robust rule.

    Parameters
    ----------
    tensor : Tensor
        This replica's update, of any shape and floating type; overwritten by the result, or by zeros after an error.
    rule : rule or callable
    manager : torchft.Manager
        After `start_quorum`, which `OptimizerWrapper.zero_grad` calls.
    entropy : KeySource, optional
        Where the first replica takes the call's key from: the rule's own source by default.

    Returns
    -------
    Aggregation or None
        What happened; None where the step has an error, which the manager knows: it will not be committed.

    Notes
    -----
    A replica that dies, a connection that breaks and more faulty updates than the rule tolerates are reported by
    `manager.report_error`. The step is then not committed, and the next quorum has the replicas that are left. The
    number n of updates is that of the quorum.
    """
    if not manager.errored():
        manager.wait_quorum()
    if manager.errored():  # as with torchft's own: after the first error, all calls of a step do nothing
        tensor.zero_()
        return None
    group = manager._pg.parent  # the group of this quorum; each has its own
    if manager.num_participants() != group.size():
        refuse(
            f"A rule needs updates of all {group.size()} replicas of the quorum, and {manager.num_participants()} take "
            "part. Make the manager without spares (WorldSizeMode.DYNAMIC)."
        )
    try:
        return robust_all_reduce(tensor, rule, group, entropy=entropy)
    except Exception as error:  # as torchft's own: whatever it is, the step is not committed
        _log.warning("Step %d will not be committed (%s: %s).", manager.current_step(), type(error).__name__, error)
        manager.report_error(error)
        tensor.zero_()
        return None


def _checked(rule: Any, manager: Manager) -> Rule:
    """The rule, where the manager can work with it."""
    found = as_rule(rule)
    if isinstance(found, Memory):
        refuse(
            "A memory cannot be used with torchft yet: steps that some replicas commit and others do not would leave "
            "replicas with different memories. Give the rule inside it, or MixTailor(default_pool(f))."
        )
    if not isinstance(manager._pg, ProcessGroupWrapper):
        refuse(
            f"torchft's manager needs a process group of this process, such as ProcessGroupGloo, for a rule, and has "
            f"{type(manager._pg).__name__}."
        )
    if manager._use_async_quorum:
        refuse(
            "A rule needs torchft's Manager(use_async_quorum=False): with True, replicas that are still being healed "
            "send zeros, which would count as updates."
        )
    if manager._group_world_size != 1:
        refuse(
            f"A rule needs replicas of one process each, and these have {manager._group_world_size}. For sharded "
            "models use Replicas, from mixtailor.engines.distributed."
        )
    if manager._min_replica_size < found.min_rows():
        refuse(
            f"{found!r} needs at least {found.min_rows()} updates ({found.needs()}), and the manager continues with "
            f"{manager._min_replica_size}. Make it with min_replica_size={found.min_rows()}."
        )
    return found


class _ManagedHook(RobustHook):
    def __init__(self, rule: Rule, manager: Manager, entropy: KeySource | None) -> None:
        super().__init__(rule, entropy=entropy)
        self.manager = manager

    def _reduced(self, vector: torch.Tensor) -> Aggregation | None:
        return managed_all_reduce(vector, self.rule, self.manager, entropy=self.entropy)


@final
class RobustDistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """Aggregate the gradients of all replicas by a rule, where torchft's `DistributedDataParallel` would average them.

    Parameters
    ----------
    manager : torchft.Manager
        With ``use_async_quorum=False`` and a `min_replica_size` of at least what the rule needs.
    module : Module
    rule : rule or callable
    entropy : KeySource, optional
        Where the first replica takes keys from: the rule's own source by default.
    **options
        Everything else that torch's `DistributedDataParallel` takes.

    Attributes
    ----------
    hook : RobustHook
        Its `last` says what happened in the last step.

    Examples
    --------
    One line of a program for torchft::

        model = RobustDistributedDataParallel(manager, model, mt.MixTailor(mt.default_pool(f=1)))
        optimizer = OptimizerWrapper(manager, torch.optim.AdamW(model.parameters()))

    Notes
    -----
    The gradient is aggregated as one vector, when its last bucket is there: exact, with nothing that overlaps with the
    backward pass.
    """

    hook: RobustHook

    def __init__(
        self, manager: Manager, module: torch.nn.Module, rule: Any, *, entropy: KeySource | None = None, **options: Any
    ) -> None:
        checked = _checked(rule, manager)
        # As torchft has it: the group does nothing, and buckets are never rebuilt, since they would differ between
        # replicas that have run for some time and one that joins.
        super().__init__(module, process_group=ProcessGroupDummy(0, 1), find_unused_parameters=True, **options)
        self.hook = _ManagedHook(checked, manager, entropy)
        self.register_comm_hook(None, self.hook)
