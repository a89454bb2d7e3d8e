"""Schedules found by an optimiser."""

from typing import Any

import numpy as np
import pytest

from mixtailor import Comed
from mixtailor.attacks import Drift, Schedule, Split
from mixtailor.experiments import RunConfig, planning
from mixtailor.experiments.building import make_attack
from mixtailor.experiments.planning import PLANS, Plan, search_schedule, trainer


@pytest.mark.parametrize("plan", [*PLANS, Plan(0.3, 0.2, 0.1, 0.5, 7, True)], ids=repr)
def test_a_plan_survives_its_vector(plan: Plan) -> None:
    assert Plan.of(plan.vector()) == plan


def test_a_plan_is_an_attack() -> None:
    """Of an experiment's file, with the start as a share of the rounds."""
    table = Plan(0.3, 0.2, 0.1, 0.5, 7, True).table()
    made = make_attack(table, rule=Comed(), classes=10, rounds=40)
    assert made == Schedule(Split(Drift(0.3, along=0.2, disguise=0.1)), start=20, flip=7)


@pytest.mark.parametrize(
    ("vector", "plan"),
    [
        ([1.0, 0, 0, -3.0, -1.0, 0.4], Plan(1.0)),
        ([1.0, 0, 0, 7.0, 9.0, 0.6], Plan(1.0, start=0.95, flip=1, split=True)),
    ],
)
def test_what_leaves_the_range_is_cut_off(vector: list[float], plan: Plan) -> None:
    assert Plan.of(np.array(vector)) == plan


def test_the_search_finds_a_weakness_that_no_start_has() -> None:
    """A server that falls to alternating pushes of 0.4 with a period of about five, on every seed."""

    def train(plan: Plan, seed: int) -> float:
        turns = 0.0 if plan.flip is None else 1.0 / plan.flip
        return abs(plan.z - 0.4) + abs(turns - 0.2) + 0.01 * seed

    found = search_schedule(train, budget=250, seeds=(0, 2), rng=0)
    assert found.accuracy < 0.1 < found.start_accuracy
    assert found.plan.flip in range(3, 9) and abs(found.plan.z - 0.4) < 0.1
    assert found.runs % 2 == 0 and found.runs <= 500 and found.history[-1][1] == found.accuracy


def test_a_transferred_plan_is_a_start() -> None:
    """It is tried before anything else, and kept where nothing beats it."""
    tried: list[Plan] = []

    def train(plan: Plan, seed: int) -> float:
        tried.append(plan)
        return 0.0 if plan == Plan(0.123, flip=3) else 1.0

    found = search_schedule(train, budget=20, starts=[Plan(0.123, flip=3), *PLANS], rng=0)
    assert tried[0] == found.plan == Plan(0.123, flip=3) and found.start_accuracy == found.accuracy == 0.0


def test_training_that_comes_apart_counts_as_nothing() -> None:
    found = search_schedule(lambda plan, seed: float("nan") if plan.split else 0.5, budget=len(PLANS), rng=0)
    assert found.plan.split and found.accuracy == 0.0


def test_a_real_server_does_worse_under_what_was_found() -> None:
    """The mean has no defence: the best of a few plans leaves it well below a run without attack."""
    table: dict[str, Any] = {"data": "synthetic", "model": "logistic", "rounds": 20, "evaluate_every": 5, "batch": 8}
    config = RunConfig.made({**table, "rule": "mean", "n": 8, "f": 3, "learning_rate": 0.1})
    found = search_schedule(trainer(config, last=1), budget=10, starts=[Plan(1.0), Plan(0.0, along=5.0)], rng=0)
    assert found.accuracy < trainer(config, last=1)(Plan(0.0), 0) - 0.2
    assert planning.trainer(config, last=1)(found.plan, 0) == found.accuracy


def test_nothing_to_search_with_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one seed and one start"):
        search_schedule(lambda plan, seed: 0.0, seeds=())
