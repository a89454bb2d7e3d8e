"""What happens to the updates before a rule sees them."""

from mixtailor.preaggregation.base import Both, Chain, PreAggregation
from mixtailor.preaggregation.nnm import NNM

__all__ = ["NNM", "Both", "Chain", "PreAggregation"]
