"""Rules on `torch.distributed`: peers that share the work, or trusted aggregators that workers send to.

The threat models differ, and are the first thing to read: see docs/engines/distributed.md.
"""

try:
    import torch.distributed  # noqa: F401  # asked for here, so that the sentence below is what a user meets
except ImportError:  # pragma: no cover  # with torch installed, nothing to see
    from mixtailor._checks import MissingPackageError

    raise MissingPackageError("The torch.distributed adapter", "torch", "torch") from None

from mixtailor.engines.distributed.aggregator import Aggregator
from mixtailor.engines.distributed.hook import RobustHook
from mixtailor.engines.distributed.optimizer import RobustOptimizer
from mixtailor.engines.distributed.peers import Peers, robust_all_reduce
from mixtailor.engines.distributed.worker import Worker

__all__ = ["Aggregator", "Peers", "RobustHook", "RobustOptimizer", "Worker", "robust_all_reduce"]
