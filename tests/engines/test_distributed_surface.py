"""What the adapter to torch.distributed offers, and what it leaves to engines made for it."""

import pkgutil

from mixtailor.engines import distributed


def test_there_is_no_home_made_protocol():
    """Workers that need not be trusted need authentication, encryption and deadlines: Flower has them, this has not."""
    assert distributed.__all__ == [
        "Gossip",
        "LocalSteps",
        "Peers",
        "Replicas",
        "RobustHook",
        "RobustOptimizer",
        "protect",
        "robust_all_reduce",
    ]
    modules = {module.name for module in pkgutil.iter_modules(distributed.__path__)}
    assert not modules & {"line", "worker", "aggregator"}
