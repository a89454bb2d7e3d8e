"""A server that steps back: whom it believes, and what it comes to under one blow."""

import math

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.attacks import Schedule, Tailored
from mixtailor.simulation import Rollback, Settings, Simulation, synthetic
from mixtailor.simulation.records import STEPPED_BACK


@pytest.mark.parametrize("seed", range(5))
def test_f_reports_can_neither_raise_nor_hide_an_alarm(seed: int) -> None:
    """Whatever two of nine workers report, the verdict on losses that did or did not rise is the same."""
    rng = np.random.default_rng(seed)
    for reports in ([0.0, 0.0], [math.inf, math.nan], [-1e9, 1e9], rng.normal(size=2).tolist()):
        rollback = Rollback(2.0)
        for _ in range(5):
            assert not rollback.alarmed([*rng.uniform(0.8, 1.2, 7), *reports], f=2)
        assert not rollback.alarmed([*rng.uniform(0.8, 1.2, 7), *reports], f=2)
        assert rollback.alarmed([*rng.uniform(2.5, 9.0, 7), *reports], f=2)


def run(rollback: Rollback | None, folder=None, rounds: int = 60, rule: mt.Rule | None = None):
    settings = Settings(n=9, byzantine=2, rounds=rounds, batch=16, learning_rate=0.1, evaluate_every=10)
    attack = Schedule(Tailored(1e6), start=45, length=1)
    return Simulation(
        synthetic(),
        "logistic",
        rule or mt.Plain(np_mean),
        attack,
        settings=settings,
        rollback=rollback,
        folder=folder,
        checkpoint_seconds=0,
    )


def np_mean(rows):
    return rows.mean(0)


@pytest.mark.parametrize("source", ["peers", "held-out"])
def test_one_blow_is_taken_back(source: str) -> None:
    """The mean follows one blow to nowhere; with a step back, training ends where it would have."""
    lost, kept = run(None).run(), run(Rollback(2.0, source=source)).run()
    back = sum(record["drawn"].get(STEPPED_BACK, 0) for record in kept.records)
    assert kept.records[-1]["loss"] < 1.5 < lost.records[-1]["loss"]
    assert back == 1


def test_f_of_the_reports_is_not_that_of_the_rule() -> None:
    """A mean tolerates nobody, and two workers that report no loss would hide the blow from it."""
    kept = [run(Rollback(2.0, f=f), rule=mt.Mean()).run().records[-1]["loss"] for f in (None, 2)]
    assert kept[1] < 1.5 < kept[0]


def test_a_run_that_is_stopped_goes_on_in_the_same_bits(tmp_path) -> None:
    whole = run(Rollback(2.0)).run()
    halves = run(Rollback(2.0), tmp_path)
    for _ in range(46):  # one round after the blow
        halves._one_round()
        halves._round += 1
    halves._save()
    again = run(Rollback(2.0), tmp_path)
    assert again.done == 46
    assert np.array_equal(again.run().weights.numpy(), whole.weights.numpy())


def test_wrong_arguments_are_refused() -> None:
    for wrong in ({"factor": 1.0}, {"floor": -1.0}, {"source": "mine"}, {"reports": "x"}, {"window": 0}):
        with pytest.raises(ValueError, match="Rollback needs"):
            Rollback(**wrong)
    with pytest.raises(ValueError, match="more than 2f = 4 losses"):
        Rollback().alarmed([1.0, 2.0, 3.0, 4.0], f=2)
