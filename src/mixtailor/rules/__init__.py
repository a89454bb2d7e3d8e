"""Rules: one small file each."""

from mixtailor.rules.aggregation import Aggregation, Quarantined
from mixtailor.rules.base import Plain, Rule, as_rule
from mixtailor.rules.comed import Comed
from mixtailor.rules.krum import Krum
from mixtailor.rules.mean import Mean

__all__ = ["Aggregation", "Comed", "Krum", "Mean", "Plain", "Quarantined", "Rule", "as_rule"]
