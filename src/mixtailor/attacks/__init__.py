"""Attacks: one small file each, and what the attacker knows."""

from mixtailor.attacks.adaptive import Adaptive
from mixtailor.attacks.alie import ALIE
from mixtailor.attacks.apart import Apart
from mixtailor.attacks.base import Attack, Crafted, Scene
from mixtailor.attacks.best_response import BestResponse
from mixtailor.attacks.blow import Blow
from mixtailor.attacks.complexity import Complexity, Mimicry, attack_complexity, mimicry
from mixtailor.attacks.consistent_direction import ConsistentDirection
from mixtailor.attacks.decoy import Decoy
from mixtailor.attacks.drift import Drift
from mixtailor.attacks.expected_drift import ExpectedDrift
from mixtailor.attacks.fang_krum import FangKrum
from mixtailor.attacks.fang_trimmed_mean import FangTrimmedMean
from mixtailor.attacks.gaussian import Gaussian
from mixtailor.attacks.knowledge import (
    Informed,
    Knowledge,
    KnowsDraw,
    KnowsPool,
    KnowsProbabilities,
    Oblivious,
    Sees,
    SeesAll,
)
from mixtailor.attacks.label_flip import LabelFlip
from mixtailor.attacks.leeway import Leeway
from mixtailor.attacks.line_search import LineSearch
from mixtailor.attacks.memory import Memory
from mixtailor.attacks.mimic import Mimic
from mixtailor.attacks.min_max import MinMax
from mixtailor.attacks.min_sum import MinSum
from mixtailor.attacks.non_finite import NonFinite
from mixtailor.attacks.optimal_tailored import OptimalTailored
from mixtailor.attacks.pool_attack import PoolAttack
from mixtailor.attacks.pump import Pump
from mixtailor.attacks.random_epsilon import RandomEpsilon
from mixtailor.attacks.registry import find, make, names
from mixtailor.attacks.roles import Roles
from mixtailor.attacks.rop import ROP
from mixtailor.attacks.schedule import Schedule
from mixtailor.attacks.shift import Shift
from mixtailor.attacks.sign_flip import SignFlip
from mixtailor.attacks.split import Split
from mixtailor.attacks.subsample_mimic import SubsampleMimic
from mixtailor.attacks.tailored import Tailored
from mixtailor.attacks.trials import Outcome, Trials
from mixtailor.attacks.twin_outliers import TwinOutliers
from mixtailor.attacks.zero import Zero

__all__ = [
    "ALIE",
    "ROP",
    "Adaptive",
    "Apart",
    "Attack",
    "BestResponse",
    "Blow",
    "Complexity",
    "ConsistentDirection",
    "Crafted",
    "Decoy",
    "Drift",
    "ExpectedDrift",
    "FangKrum",
    "FangTrimmedMean",
    "Gaussian",
    "Informed",
    "Knowledge",
    "KnowsDraw",
    "KnowsPool",
    "KnowsProbabilities",
    "LabelFlip",
    "Leeway",
    "LineSearch",
    "Memory",
    "Mimic",
    "Mimicry",
    "MinMax",
    "MinSum",
    "NonFinite",
    "Oblivious",
    "OptimalTailored",
    "Outcome",
    "PoolAttack",
    "Pump",
    "RandomEpsilon",
    "Roles",
    "Scene",
    "Schedule",
    "Sees",
    "SeesAll",
    "Shift",
    "SignFlip",
    "Split",
    "SubsampleMimic",
    "Tailored",
    "Trials",
    "TwinOutliers",
    "Zero",
    "attack_complexity",
    "find",
    "make",
    "mimicry",
    "names",
]
