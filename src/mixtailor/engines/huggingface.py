"""Rules for Hugging Face's `Trainer`; a model that Accelerate prepared takes `protect` as it is.

Read the threat model first, in docs/engines/frameworks.md: faulty gradients on honest hosts, not a compromised rank.
"""

from typing import Any, final

from mixtailor.engines.distributed.callback import Protecting

try:
    from transformers import TrainerCallback
except ImportError:  # pragma: no cover  # with transformers installed, nothing to see
    from mixtailor._checks import MissingPackageError

    raise MissingPackageError("The Trainer callback", "transformers", "huggingface") from None

__all__ = ["RobustCallback"]


@final
class RobustCallback(Protecting, TrainerCallback):  # type: ignore[misc]  # transformers is not installed where types are checked
    """Aggregate the gradients of all processes by a rule, where `Trainer` would average them.

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
    One argument more, in a program that `torchrun` or `accelerate launch` starts in several processes::

        Trainer(model, arguments, train_dataset=data, callbacks=[RobustCallback(mt.recommended(f=1))])

    Notes
    -----
    Where `Trainer` does not use DistributedDataParallel (one process, FSDP, DeepSpeed), training does not begin.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        """Find what `Trainer` has wrapped the model in."""
        self._protect(options["model"])

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        """Refuse a step that the rule has not seen."""
        self._check()
