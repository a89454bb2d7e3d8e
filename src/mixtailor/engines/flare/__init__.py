"""Rules as an aggregator of NVIDIA FLARE, for its recipes and workflows, and a controller without rounds.

The threat model is the first thing to read: see docs/engines/flare.md.
"""

try:
    import nvflare  # noqa: F401  # asked for here, so that the sentence below is what a user meets
except ImportError:  # pragma: no cover  # with nvflare installed, nothing to see
    from mixtailor._checks import MissingPackageError

    raise MissingPackageError("The FLARE adapter", "nvflare", "flare") from None

from mixtailor.engines.flare.aggregator import RobustAggregator
from mixtailor.engines.flare.buffered import BufferedController

__all__ = ["BufferedController", "RobustAggregator"]
