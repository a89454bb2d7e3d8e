"""Rules: one small file each."""

from mixtailor.rules.aggregation import Aggregation, Quarantined
from mixtailor.rules.aksel import Aksel
from mixtailor.rules.base import Rule
from mixtailor.rules.bounded import Bounded
from mixtailor.rules.bulyan import Bulyan
from mixtailor.rules.caf import CAF
from mixtailor.rules.centered_clipping import CenteredClipping
from mixtailor.rules.cge import CGE
from mixtailor.rules.clipped_gossip import ClippedGossip
from mixtailor.rules.comed import Comed
from mixtailor.rules.ctma import CTMA
from mixtailor.rules.distance_filter import DistanceFilter
from mixtailor.rules.dnc import DnC
from mixtailor.rules.fltrust import FLTrust
from mixtailor.rules.geometric_median import GeometricMedian
from mixtailor.rules.krum import Krum
from mixtailor.rules.mda import MDA
from mixtailor.rules.meamed import Meamed
from mixtailor.rules.mean import Mean
from mixtailor.rules.medoid import Medoid
from mixtailor.rules.monna import MoNNA
from mixtailor.rules.multi_krum import MultiKrum
from mixtailor.rules.omniscient import Omniscient
from mixtailor.rules.phocas import Phocas
from mixtailor.rules.plain import Plain, as_rule
from mixtailor.rules.reputation import Observer, Reputation, Standing
from mixtailor.rules.sign_vote import SignVote
from mixtailor.rules.sketched import Sketched
from mixtailor.rules.smea import SMEA
from mixtailor.rules.subsampled import Subsampled
from mixtailor.rules.tree import Tree
from mixtailor.rules.trimmed_mean import TrimmedMean
from mixtailor.rules.view_filter import ViewFilter

__all__ = [
    "CAF",
    "CGE",
    "CTMA",
    "MDA",
    "SMEA",
    "Aggregation",
    "Aksel",
    "Bounded",
    "Bulyan",
    "CenteredClipping",
    "ClippedGossip",
    "Comed",
    "DistanceFilter",
    "DnC",
    "FLTrust",
    "GeometricMedian",
    "Krum",
    "Meamed",
    "Mean",
    "Medoid",
    "MoNNA",
    "MultiKrum",
    "Observer",
    "Omniscient",
    "Phocas",
    "Plain",
    "Quarantined",
    "Reputation",
    "Rule",
    "SignVote",
    "Sketched",
    "Standing",
    "Subsampled",
    "Tree",
    "TrimmedMean",
    "ViewFilter",
    "as_rule",
]
