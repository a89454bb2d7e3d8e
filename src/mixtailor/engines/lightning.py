"""Rules for Lightning's `Trainer`; a model that Fabric set up takes `protect` as it is.

Read the threat model first, in docs/engines/frameworks.md: faulty gradients on honest hosts, not a compromised rank.
"""

from typing import Any, final

from mixtailor.engines.distributed.callback import Protecting

try:
    from lightning.pytorch import Callback
except ImportError:  # pragma: no cover  # with lightning installed, nothing to see
    from mixtailor._checks import MissingPackageError

    raise MissingPackageError("The Lightning callback", "lightning", "lightning") from None

__all__ = ["RobustCallback"]


@final
class RobustCallback(Protecting, Callback):  # type: ignore[misc]  # lightning is not installed where types are checked
    """Aggregate the gradients of all processes by a rule, where `strategy="ddp"` would average them.

    Parameters
    ----------
    rule, entropy, on_fault
        As for `RobustHook`.

    Attributes
    ----------
    hook : RobustHook or None
        What is registered since training began; its `last` says what happened in the last step.

    Examples
    --------
    One argument more::

        Trainer(strategy="ddp", devices=4, callbacks=[RobustCallback(mt.recommended(f=1))])

    Notes
    -----
    Lightning's own ``DDPStrategy(ddp_comm_hook=...)`` registers its hook on GPUs alone, and says nothing elsewhere.
    This callback registers on every device; where the strategy is not DDP, training does not begin.
    """

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Find what the strategy has wrapped the module in."""
        self._protect(trainer.strategy.model)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Refuse a step that the rule has not seen."""
        self._check()
