"""Rules: one small file each."""

from mixtailor.rules.aggregation import Aggregation, Quarantined
from mixtailor.rules.base import Plain, Rule, as_rule
from mixtailor.rules.bulyan import Bulyan
from mixtailor.rules.caf import CAF
from mixtailor.rules.centered_clipping import CenteredClipping
from mixtailor.rules.comed import Comed
from mixtailor.rules.dnc import DnC
from mixtailor.rules.fltrust import FLTrust
from mixtailor.rules.geometric_median import GeometricMedian
from mixtailor.rules.krum import Krum
from mixtailor.rules.mean import Mean

__all__ = [
    "CAF",
    "Aggregation",
    "Bulyan",
    "CenteredClipping",
    "Comed",
    "DnC",
    "FLTrust",
    "GeometricMedian",
    "Krum",
    "Mean",
    "Plain",
    "Quarantined",
    "Rule",
    "as_rule",
]
