"""Experiments as data: one TOML file each, sweeps of runs that resume, the paper's figures and tables."""

from mixtailor.experiments.claims import Claim, Number, Verdict
from mixtailor.experiments.config import PRESETS, RunConfig
from mixtailor.experiments.curves import keep_curves, kept_curves
from mixtailor.experiments.errors import ConfigError, ImpossibleError
from mixtailor.experiments.experiment import Entry, Experiment, Panel
from mixtailor.experiments.planning import FoundPlan, Plan, search_schedule, trainer
from mixtailor.experiments.results import Result, Results
from mixtailor.experiments.running import Finished, run
from mixtailor.experiments.shipped import shipped, shipped_names
from mixtailor.experiments.watching import Watch, watched_runs
from mixtailor.experiments.worst import WorstCase, worst_cases

__all__ = [
    "PRESETS",
    "Claim",
    "ConfigError",
    "Entry",
    "Experiment",
    "Finished",
    "FoundPlan",
    "ImpossibleError",
    "Number",
    "Panel",
    "Plan",
    "Result",
    "Results",
    "RunConfig",
    "Verdict",
    "Watch",
    "WorstCase",
    "keep_curves",
    "kept_curves",
    "run",
    "search_schedule",
    "shipped",
    "shipped_names",
    "trainer",
    "watched_runs",
    "worst_cases",
]
