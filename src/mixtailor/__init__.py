"""Keeps distributed and federated training on course when some of the workers lie."""

from mixtailor._checks import FaultError
from mixtailor._version import __version__
from mixtailor.preaggregation import NNM
from mixtailor.rules import Aggregation, Comed, Krum, Mean, Plain, Rule

__all__ = ["Aggregation", "Comed", "FaultError", "NNM", "Krum", "Mean", "Plain", "Rule", "__version__"]
