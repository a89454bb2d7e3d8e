"""Protects distributed and federated training against Byzantine workers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mixtailor._version import __version__

if TYPE_CHECKING:
    from mixtailor import attacks, theory
    from mixtailor._checks import FaultError, MissingPackageError, NotRobustWarning
    from mixtailor.memory import Fresh, Guarded, Inbox, Kept, Memory, recommended
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
    from mixtailor.report.comparison import compare
    from mixtailor.rules import (
        CAF,
        CGE,
        CTMA,
        MDA,
        SMEA,
        Aggregation,
        Aksel,
        Bounded,
        Bulyan,
        CenteredClipping,
        ClippedGossip,
        Comed,
        DistanceFilter,
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
        Sketched,
        Subsampled,
        Tree,
        TrimmedMean,
        ViewFilter,
    )

__all__ = [
    "ARC",
    "CAF",
    "CGE",
    "CTMA",
    "MDA",
    "NNM",
    "SMEA",
    "Aggregation",
    "Aksel",
    "AuditTrail",
    "Bounded",
    "Bucketing",
    "Bulyan",
    "CenteredClipping",
    "ClippedGossip",
    "Clipping",
    "Comed",
    "DistanceFilter",
    "DnC",
    "Entropy",
    "FLTrust",
    "FaultError",
    "Fresh",
    "GeometricMedian",
    "Guarded",
    "Inbox",
    "Kept",
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
    "Sketched",
    "Subsampled",
    "SystemEntropy",
    "Tree",
    "TrimmedMean",
    "ViewFilter",
    "__version__",
    "attacks",
    "compare",
    "default_pool",
    "make_rule",
    "paper_pool",
    "recommended",
    "theory",
]

# Where each name is. They load when they are first asked for: the help of a command needs none of them, and numba alone
# takes longer to load than help may take.
_PLACES = {
    "_checks": ("FaultError", "MissingPackageError", "NotRobustWarning"),
    "memory": ("Fresh", "Guarded", "Inbox", "Kept", "Memory", "recommended"),
    "mixing": ("AuditTrail", "Entropy", "MixTailor", "SeededEntropy", "SystemEntropy", "default_pool", "paper_pool"),
    "mixing.registry": ("make_rule",),
    "preaggregation": ("ARC", "NNM", "Bucketing", "Clipping", "PreAggregation", "Resampling", "SimilarityFilter"),
    "report.comparison": ("compare",),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in ("attacks", "theory"):
        return import_module(f"mixtailor.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'mixtailor' has no attribute {name!r}")
    found = getattr(import_module(f"mixtailor.{_MODULES.get(name, 'rules')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
