"""Keeps distributed and federated training on course when some of the workers lie."""

from typing import TYPE_CHECKING, Any

from mixtailor._checks import FaultError, MissingPackageError, NotRobustWarning
from mixtailor._version import __version__
from mixtailor.memory import Memory, recommended
from mixtailor.mixing import (
    AuditTrail,
    Entropy,
    MixTailor,
    SeededEntropy,
    SystemEntropy,
    default_pool,
    paper_pool,
)
from mixtailor.mixing.registry import make_rule
from mixtailor.preaggregation import ARC, NNM, Bucketing, Clipping, PreAggregation, Resampling, SimilarityFilter
from mixtailor.rules import (
    CAF,
    CGE,
    MDA,
    SMEA,
    Aggregation,
    Aksel,
    Bulyan,
    CenteredClipping,
    Comed,
    DnC,
    FLTrust,
    GeometricMedian,
    Krum,
    Meamed,
    Mean,
    Medoid,
    MoNNA,
    MultiKrum,
    Omniscient,
    Phocas,
    Plain,
    Reputation,
    Rule,
    SignVote,
    Subsampled,
    TrimmedMean,
    ViewFilter,
)

if TYPE_CHECKING:
    from mixtailor import attacks, theory

__all__ = [
    "ARC",
    "CAF",
    "CGE",
    "MDA",
    "NNM",
    "SMEA",
    "Aggregation",
    "Aksel",
    "AuditTrail",
    "Bucketing",
    "Bulyan",
    "CenteredClipping",
    "Clipping",
    "Comed",
    "DnC",
    "Entropy",
    "FLTrust",
    "FaultError",
    "GeometricMedian",
    "Krum",
    "Meamed",
    "Mean",
    "Medoid",
    "Memory",
    "MissingPackageError",
    "MixTailor",
    "MoNNA",
    "MultiKrum",
    "NotRobustWarning",
    "Omniscient",
    "Phocas",
    "Plain",
    "PreAggregation",
    "Reputation",
    "Resampling",
    "Rule",
    "SeededEntropy",
    "SignVote",
    "SimilarityFilter",
    "Subsampled",
    "SystemEntropy",
    "TrimmedMean",
    "ViewFilter",
    "__version__",
    "attacks",
    "default_pool",
    "make_rule",
    "paper_pool",
    "recommended",
    "theory",
]


def __getattr__(name: str) -> Any:
    """The attackers and the theory load when they are first asked for."""
    if name in ("attacks", "theory"):
        from importlib import import_module

        return import_module(f"mixtailor.{name}")
    raise AttributeError(f"module 'mixtailor' has no attribute {name!r}")
