"""Theory: when a rule or a mixture of rules holds, as formulas with their assumptions."""

from mixtailor.theory.asynchronous import WeightedShare, majority_risk, weighted_share, zeno_score
from mixtailor.theory.bounds import (
    Breakdown,
    C,
    KrumBound,
    Lambda,
    breakdown,
    dimension_factor,
    krum_bound,
    krum_coefficient,
    published_krum_coefficient,
)
from mixtailor.theory.certificate import AttackVerdict, Certificate, RuleVerdict
from mixtailor.theory.certify import certify
from mixtailor.theory.clusters import EffectiveSize, cluster_products, cluster_results
from mixtailor.theory.coefficients import (
    KrumBounds,
    Overstated,
    blanchard_factor,
    compare_krum_bounds,
    multi_krum_coefficient,
    overstated_f,
)
from mixtailor.theory.conditions import (
    Convergence,
    MixtureCondition,
    UnequalMixture,
    convergence_condition,
    krum_beta,
    mixture_condition,
    unequal_mixture,
)
from mixtailor.theory.costs import PoolCost, pool_cost
from mixtailor.theory.effective import effective_size
from mixtailor.theory.estimates import Estimate, Interval, estimate
from mixtailor.theory.game import Solution, no_regret, payoff, solve
from mixtailor.theory.gossip import GossipCondition, fiedler_vector, gossip_condition, spectral_gap
from mixtailor.theory.harden import Hardened, harden, judge
from mixtailor.theory.heterogeneity import HeterogeneityBound, heterogeneity_bound
from mixtailor.theory.intersections import (
    LambdaIntersection,
    comed_lambda_bound,
    krum_lambda_bound,
    lambda_intersection,
)
from mixtailor.theory.kappa import KappaBound, kappa_lower_bound
from mixtailor.theory.moments import Moments, estimate_moments, moment_constant
from mixtailor.theory.one_round import OneRound, one_round
from mixtailor.theory.robust_tailor import RobustTailor
from mixtailor.theory.sampling import f_for_sampling, least_sample, local_error, sampling_failure
from mixtailor.theory.schedules import PowerSchedule, StepSizes, check_step_sizes
from mixtailor.theory.states import State

__all__ = [
    "AttackVerdict",
    "Breakdown",
    "C",
    "Certificate",
    "Convergence",
    "EffectiveSize",
    "Estimate",
    "GossipCondition",
    "Hardened",
    "HeterogeneityBound",
    "Interval",
    "KappaBound",
    "KrumBound",
    "KrumBounds",
    "Lambda",
    "LambdaIntersection",
    "MixtureCondition",
    "Moments",
    "OneRound",
    "Overstated",
    "PoolCost",
    "PowerSchedule",
    "RobustTailor",
    "RuleVerdict",
    "Solution",
    "State",
    "StepSizes",
    "UnequalMixture",
    "WeightedShare",
    "blanchard_factor",
    "breakdown",
    "certify",
    "check_step_sizes",
    "cluster_products",
    "cluster_results",
    "comed_lambda_bound",
    "compare_krum_bounds",
    "convergence_condition",
    "dimension_factor",
    "effective_size",
    "estimate",
    "estimate_moments",
    "f_for_sampling",
    "fiedler_vector",
    "gossip_condition",
    "harden",
    "heterogeneity_bound",
    "judge",
    "kappa_lower_bound",
    "krum_beta",
    "krum_bound",
    "krum_coefficient",
    "krum_lambda_bound",
    "lambda_intersection",
    "least_sample",
    "local_error",
    "majority_risk",
    "mixture_condition",
    "moment_constant",
    "multi_krum_coefficient",
    "no_regret",
    "one_round",
    "overstated_f",
    "payoff",
    "pool_cost",
    "published_krum_coefficient",
    "sampling_failure",
    "solve",
    "spectral_gap",
    "unequal_mixture",
    "weighted_share",
    "zeno_score",
]
