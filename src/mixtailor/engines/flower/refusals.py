"""What of Flower does not go together with a rule, refused with a sentence before a model is sent."""

import inspect
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from flwr.serverapp.strategy.strategy import Strategy

from mixtailor._checks import refuse

__all__ = ["refuse_mixing", "refuse_older", "refuse_seeds", "refuse_sums", "refuse_wrapper"]


def refuse_mixing(cls: type, own: type) -> None:
    """Refuse a class that is made of `own` and of another strategy of Flower, whose part would be lost in silence."""
    for other in cls.__mro__:
        aggregates = hasattr(other, "aggregate_train") or hasattr(other, "aggregate_fit")  # of the older interface
        if aggregates and other.__module__.startswith("flwr.") and other not in own.__mro__:
            raise TypeError(
                f"{cls.__name__} is made of {own.__name__} and of Flower's {other.__name__}, and what "
                f"{other.__name__} does would be ignored: both decide how the replies are used. For "
                f"Adam, Yogi or Adagrad at the server, write {own.__name__}(rule, server_optimizer=Adam(...)), from "
                "mixtailor.engines.flower. For FedProx, send the clients ConfigRecord({'proximal-mu': ...}) as "
                "train_config."
            )


def refuse_wrapper(own: object) -> None:
    """Refuse to be called by one of Flower's wrappers for differential privacy.

    A wrapper holds the strategy it wraps, and the strategy does not know of it. So the callers are looked at, all of
    them: there may be another wrapper in between.
    """
    frame = inspect.currentframe()
    while frame is not None:
        wrapper, frame = frame.f_locals.get("self"), frame.f_back
        if wrapper is own or not isinstance(wrapper, Strategy):
            continue
        names = [base.__name__ for base in type(wrapper).__mro__ if base.__module__.startswith("flwr.")]
        if any(name.startswith("DifferentialPrivacy") for name in names):
            _refuse_privacy(own, wrapper)


def _refuse_privacy(own: object, wrapper: Strategy) -> NoReturn:
    refuse(
        f"{type(own).__name__} cannot be wrapped in {type(wrapper).__name__}. The wrapper reads and rewrites "
        "replies before the quarantine sees them, so that one malformed client ends the run, and its noise is made "
        "for a mean: a rule that selects updates may change by more when one client changes, and the promised "
        "epsilon would not hold. Let clients add the noise themselves (flwr.clientapp.mod.LocalDpMod), or give up "
        "one of the two protections."
    )


def refuse_sums(name: str) -> NoReturn:
    """Refuse a workflow of secure aggregation, which shows the server a sum and nothing else."""
    refuse(
        f"{name} needs every client's update, and secure aggregation (SecAgg, SecAgg+) shows the server their sum "
        "alone: no rule can find a Byzantine update in a sum. Use one or the other. A workflow of Flower's older API "
        "(configure_fit) cannot run this strategy either way: call its start."
    )


def refuse_older(name: str) -> NoReturn:
    """Refuse Flower's older interface, in which strategies return parameters and clients `FitRes`."""
    refuse(
        f"{name} needs Flower's message interface, and was given to the older one (server_fn, ServerAppComponents, "
        "start_server). Write the server as @app.main() with strategy.start(grid, initial_arrays), and clients with "
        "@app.train(): docs/engines/flower.md shows both. SecAgg and SecAgg+ run in the older one alone, and show the "
        "server a sum, in which no rule can find a Byzantine update."
    )


def refuse_seeds(config: Mapping[str, Any], where: str, public: Collection[str]) -> None:
    """Refuse a configuration that holds a seed, unless its key is among those that may be known."""
    found = [key for key in config if "seed" in str(key).lower() and key not in public]
    if found:
        refuse(
            f"{where} holds a seed, {found[0]!r}, and every client can read it: draws that come from it protect "
            "nobody. Take it out and let the server draw from the operating system. If it is a seed that may be "
            f"known, say so: public_seeds=[{found[0]!r}]."
        )
