"""What the callbacks of frameworks share: they know when a model has been wrapped, and register a hook there."""

from typing import Any

import torch

from mixtailor._checks import refuse
from mixtailor.engines.distributed.hook import RobustHook, protect
from mixtailor.rules.request import KeySource, OnFault

__all__ = ["Protecting"]


class Protecting:
    """Aggregate the gradients of all processes by a rule, where a framework would average them. Abstract.

    Subclasses call `_protect` when training begins, and `_check` before each step of an optimizer.

    Parameters
    ----------
    rule, entropy, on_fault
        As for `RobustHook`.

    Attributes
    ----------
    hook : RobustHook or None
        What is registered since training began; its `last` says what happened in the last step.
    """

    def __init__(self, rule: Any, *, entropy: KeySource | None = None, on_fault: OnFault = "raise") -> None:
        super().__init__()
        self.rule, self.entropy = rule, entropy
        self.on_fault: OnFault = on_fault
        self.hook: RobustHook | None = None

    def _protect(self, model: torch.nn.Module) -> None:
        self.hook = protect(model, self.rule, entropy=self.entropy, on_fault=self.on_fault)

    def _check(self) -> None:
        """Refuse a step along gradients that have not gone through the hook."""
        if self.hook is None or self.hook.calls == 0:
            refuse(
                f"No gradient has reached {self.rule!r} before the first step: the framework does not train the "
                "DistributedDataParallel module that the hook is registered on. Write the loop yourself, with "
                "RobustOptimizer."
            )
