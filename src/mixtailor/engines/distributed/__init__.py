"""Rules on `torch.distributed`: all ranks are peers that share the work.

Read the threat model first, in docs/engines/distributed.md: faulty gradients on honest hosts, not a compromised rank.
Workers that need not be trusted belong on Flower, `mixtailor.engines.flower`.
"""

try:
    import torch.distributed  # noqa: F401  # asked for here, so that the sentence below is what a user meets
except ImportError:  # pragma: no cover  # with torch installed, nothing to see
    from mixtailor._checks import MissingPackageError

    raise MissingPackageError("The torch.distributed adapter", "torch", "torch") from None

from mixtailor.engines.distributed.gossip import Gossip
from mixtailor.engines.distributed.hook import RobustHook, protect
from mixtailor.engines.distributed.local import LocalSteps
from mixtailor.engines.distributed.optimizer import RobustOptimizer
from mixtailor.engines.distributed.peers import Peers, robust_all_reduce
from mixtailor.engines.distributed.replicas import Replicas

__all__ = ["Gossip", "LocalSteps", "Peers", "Replicas", "RobustHook", "RobustOptimizer", "protect", "robust_all_reduce"]
