"""MixTailor: pools, the draw, where its randomness comes from, and the audit trail."""

from mixtailor.mixing.audit import AuditTrail, verify
from mixtailor.mixing.entropy import Entropy, SeededEntropy, SystemEntropy
from mixtailor.mixing.mixtailor import MixTailor
from mixtailor.mixing.pools import default_pool, paper_pool

__all__ = [
    "AuditTrail",
    "Entropy",
    "MixTailor",
    "SeededEntropy",
    "SystemEntropy",
    "default_pool",
    "paper_pool",
    "verify",
]
