"""What happens to the updates before a rule sees them."""

from mixtailor.preaggregation.arc import ARC
from mixtailor.preaggregation.base import Both, Chain, PreAggregation
from mixtailor.preaggregation.bucketing import Bucketing
from mixtailor.preaggregation.clipping import Clipping
from mixtailor.preaggregation.nnm import NNM
from mixtailor.preaggregation.resampling import Resampling
from mixtailor.preaggregation.similarity_filter import SimilarityFilter

__all__ = [
    "ARC",
    "NNM",
    "Both",
    "Bucketing",
    "Chain",
    "Clipping",
    "PreAggregation",
    "Resampling",
    "SimilarityFilter",
]
