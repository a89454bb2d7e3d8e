"""Rules as a Flower strategy, and attacks as Flower clients.

The threat model is the first thing to read: see docs/engines/flower.md.
"""

try:
    import flwr  # noqa: F401  # asked for here, so that the sentence below is what a user meets
except ImportError:  # pragma: no cover  # with flwr installed, nothing to see
    from mixtailor._checks import MissingPackageError

    raise MissingPackageError("The Flower adapter", "flwr", "flower") from None

from mixtailor.engines.flower.buffered import BufferedServer, Steps
from mixtailor.engines.flower.collusion import Colluding
from mixtailor.engines.flower.digests import digest_of_content
from mixtailor.engines.flower.mods import FAULTS, byzantine_mod, malformed_mod
from mixtailor.engines.flower.optimizers import Adagrad, Adam, ServerOptimizer, Yogi
from mixtailor.engines.flower.strategy import RobustStrategy

__all__ = [
    "FAULTS",
    "Adagrad",
    "Adam",
    "BufferedServer",
    "Colluding",
    "RobustStrategy",
    "ServerOptimizer",
    "Steps",
    "Yogi",
    "byzantine_mod",
    "digest_of_content",
    "malformed_mod",
]
