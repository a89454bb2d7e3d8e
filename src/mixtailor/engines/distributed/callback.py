"""What the callbacks of frameworks share: they know when a model has been wrapped, and register a hook there."""

from typing import Any

import torch

from mixtailor.engines.distributed.hook import RobustHook, protect
from mixtailor.rules.request import KeySource, OnFault

__all__ = ["Protecting"]


class Protecting:
    """Aggregate the gradients of all processes by a rule, where a framework would average them. Abstract.

    Parameters
    ----------
    rule : rule or callable
    entropy : KeySource, optional
        Where the first process takes keys from: the rule's own source by default.
    on_fault : {"raise", "skip"}
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
