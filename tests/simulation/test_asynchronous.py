"""Training that does not wait: what it waits for, how stale it is, and what sampled majorities do."""

import pytest
import torch

import mixtailor as mt
from mixtailor.attacks import Tailored
from mixtailor.simulation import Asynchronous, Clock, Settings, synthetic


def made(rule, when, *, n=12, byzantine=3, steps=40, attack=None, seed=0, model="logistic", **options) -> Asynchronous:
    settings = Settings(
        n=n, byzantine=byzantine, rounds=steps, batch=8, learning_rate=0.1, momentum=0.0, seed=seed, evaluate_every=20
    )
    return Asynchronous(synthetic(), model, rule, attack, settings=settings, when=when, **options)


def test_waiting_for_all_is_synchronous_and_slow() -> None:
    """No update is stale, and stragglers set the pace: the clock shows it."""
    clock = Clock(stragglers=0.3)
    whole = made(mt.Mean(), mt.Fresh(12), clock=clock).run()
    part = made(mt.Mean(), mt.Fresh(4), clock=clock).run()
    assert whole.staleness == 0.0 < part.staleness
    assert part.records[-1]["time"] < whole.records[-1]["time"] / 5


@pytest.mark.parametrize("byzantine", ["fast", "stale"])
def test_byzantine_clients_have_at_most_f_rows_of_every_aggregation(byzantine) -> None:
    """The median of eight rows holds against two, whether they are fast or stale; the mean does not."""
    clock, attack = Clock(byzantine=byzantine), Tailored(100.0)
    options = {"attack": attack, "clock": clock, "oldest": 10, "byzantine": 2, "steps": 60}
    robust = made(mt.GeometricMedian(), mt.Fresh(8), **options).run()
    plain = made(mt.Mean(), mt.Fresh(8), **options).run()
    assert robust.accuracy() > 0.6 > 0.4 > plain.accuracy()


def test_a_sample_may_have_a_byzantine_majority_and_all_kept_rows_have_none() -> None:
    """5 of 40 clients in a step, 12 of the 40 Byzantine: a sixth of the samples have a majority of them."""
    options = {"n": 40, "byzantine": 12, "attack": Tailored(100.0), "sample": 5, "steps": 60}
    sampled = made(mt.Comed(), mt.Fresh(1), **options).run()
    kept = made(mt.Comed(), mt.Kept(1), **options).run()
    assert kept.accuracy() > 0.7 > 0.5 > sampled.accuracy()
    assert mt.theory.majority_risk(40, 12, 5) > 0.1


def test_the_same_seed_gives_the_same_bits() -> None:
    first, second = (made(mt.Comed(), mt.Kept(4), attack=Tailored(1.0), seed=3).run() for _ in range(2))
    assert torch.equal(first.weights, second.weights) and first.records == second.records


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="sample <= n"):
        made(mt.Comed(), mt.Fresh(2), sample=13)
    with pytest.raises(ValueError, match="Nobody computes"):
        made(mt.Comed(), mt.Fresh(13)).run()
    with pytest.raises(ValueError, match="stragglers from 0 to 1"):
        Clock(stragglers=2.0)


def test_training_that_diverges_ends_and_says_so() -> None:
    """Before, an attack that computes with honest updates met NaN and ended the program."""
    found = made(mt.Mean(), mt.Fresh(8), attack=Tailored(1e30), model="mlp").run()
    assert found.diverged is not None and found.diverged < 40
    assert found.records[-1]["step"] == found.diverged
    assert made(mt.Mean(), mt.Fresh(8)).run().diverged is None


def test_byzantine_clients_reach_their_rows_through_the_running_means() -> None:
    """What they send makes their running mean the row that the attack asks for: momentum hides nothing from them."""
    run = made(mt.Mean(), mt.Kept(8), momentum=0.5)
    run.inbox.put(0, torch.full((4,), 3.0), version=0)
    row = torch.ones(4)
    assert torch.equal(0.5 * torch.full((4,), 3.0) + 0.5 * run._aimed(0, row), row)
