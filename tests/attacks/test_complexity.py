"""What an attack costs, and the experiment on sub-sampling."""

import json

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import OptimalTailored, SubsampleMimic, attack_complexity, mimicry

WEAK = rows(12, d=100, seed=0) - 0.2


def test_counts_are_first_passages_and_sum_over_the_pool() -> None:
    """T_i of each rule as its own attack reports it; equal rules count each, and once in `distinct`."""
    pool = mt.MixTailor([mt.Krum(2), mt.Mean(), mt.Krum(2)])
    found = attack_complexity(pool, (1.0, 0.1), honest=WEAK[:10], own=WEAK[10:], f=2, budget=80)
    alone = attack_complexity(mt.Mean(), (1.0, 0.1), honest=WEAK[:10], own=WEAK[10:], f=2, budget=80)
    assert found.counts[1] == alone.counts[0] and found.counts[0] == found.counts[2]
    attack = OptimalTailored(mt.Mean(), rows="separate", budget=80, tolerance=0.1)
    errors = attack.craft(WEAK[:10], 2, own=WEAK[10:], rng=0).facts["errors"]
    assert alone.counts[0][1] == next(spent for spent, error in errors if error <= 0.1)
    for place in range(2):
        assert found.totals[place] == sum(counts[place] for counts in found.counts)
        assert found.distinct[place] == found.counts[0][place] + found.counts[1][place]
    assert found.reached == (3, 3) and found.counts[0][0] <= found.counts[0][1]
    assert json.loads(found.to_json())["totals"] == list(found.totals)


def test_what_is_not_reached_counts_with_what_was_spent() -> None:
    """And is shown as none where the attack is solved, else as more than what was spent."""
    found = attack_complexity(mt.Comed(), (0.01,), honest=5.0 + WEAK[:10], f=2, budget=40)
    assert found.counts == ((None,),) and found.reached == (0,) and found.totals[0] == 2
    assert found.solved == (True,) and str(found).splitlines()[1].split() == ["Comed()", "none"]
    pool = mt.MixTailor([mt.GeometricMedian(), mt.Comed()])
    found = attack_complexity(pool, (0.01,), honest=5.0 + WEAK[:10], f=2, budget=40)
    lines = str(found).splitlines()
    assert found.solved == (False, True) and found.counts[0] == (None,)
    assert lines[1].endswith(f"> {found.spent[0]}") and lines[-1].endswith(f"> {found.totals[0]}")


def test_beyond_a_right_angle_no_count_is_no_proof() -> None:
    """There the solved rules' updates are near the best, and the table does not say that none exist."""
    found = attack_complexity(mt.Comed(), (1.7, 1.5), honest=5.0 + WEAK[:10], f=2, budget=40)
    lines = str(found).splitlines()
    assert lines[1].split() == ["Comed()", ">", "2", "none"] and lines[-1].split()[-3:] == [">", "2", "2"]


def test_a_larger_budget_finds_rows_that_a_small_one_did_not_rule_out() -> None:
    """Against NNM >> comed: the small search says that it takes more than it spent, and it does."""
    everyone = 0.15 + np.random.default_rng(0).normal(size=(12, 5))
    rule = mt.NNM(f=4) >> mt.Comed()
    few, many = (
        attack_complexity(rule, (0.05,), honest=everyone[4:], own=everyone[:4], f=4, budget=budget)
        for budget in (100, 1000)
    )
    assert few.counts[0][0] is None and f"> {few.spent[0]}" in str(few)
    assert many.counts[0][0] is not None and many.counts[0][0] > few.spent[0]


def test_attacks_on_columnwise_rules_are_found_where_they_exist() -> None:
    """Of ten instances, the median can be turned around in some: all of these have a count, at the finest angle too."""
    reached = 0
    for seed in range(10):
        everyone = np.random.default_rng(seed).normal(size=(12, 5))
        found = attack_complexity(mt.Comed(), (1.0, 1e-6), honest=everyone[4:], own=everyone[:4], f=4)
        exact = OptimalTailored(mt.Comed()).craft(everyone[4:], 4, own=everyone[:4]).facts["feasible"]
        assert (found.counts[0][1] is not None) == exact
        reached += exact
    assert 1 <= reached < 10


def test_angles_are_checked() -> None:
    """At least one, above zero."""
    for angles in ((), (0.0,)):
        with pytest.raises(ValueError, match="attack_complexity needs"):
            attack_complexity(mt.Krum(2), angles, honest=WEAK[:10], f=2)


def test_the_mimic_averages_over_its_own_draws() -> None:
    """Its values are the mean over subsets, which with k = n is Krum's own answer."""
    honest = WEAK[:10]
    made = SubsampleMimic(mt.Subsampled(mt.Krum(2), 12), draws=3).craft(honest, 2, rng=0)
    mean = honest.mean(axis=0)
    expected = {eps: mt.Krum(2)([*honest, -eps * mean, -eps * mean]) @ mean for eps in (0.1, 0.5, 1.0, 10.0)}
    assert made.facts["tried"] == pytest.approx(expected) and made.facts["evaluations"] == 12
    some = SubsampleMimic(mt.Subsampled(mt.Krum(2), 8), draws=8).craft(honest, 2, rng=0).facts["tried"]
    assert some != pytest.approx(expected)


def test_sub_sampling_falls_to_its_mimic_and_the_mixture_does_not() -> None:
    """Where Krum is broken in every round: drawn rows are of little use, drawn rules are."""
    random = np.random.default_rng(0)
    rounds = [(0.2 + random.normal(size=(12, 150)), np.full(150, 0.2)) for _ in range(4)]
    pool = [mt.Krum(2), mt.Comed(), mt.GeometricMedian(), mt.TrimmedMean(2)]
    found = mimicry(rounds, 2, k=9, pool=pool, draws=8, budget=30)
    krum, subsampled, mixed = (dict(zip(found.attackers, row, strict=True)) for row in found.payoffs)
    assert krum["Adaptive on Krum"] < 0 and subsampled["SubsampleMimic"] < 0 < mixed["SubsampleMimic"]
    assert json.loads(found.to_json())["rounds"] == 4 and "MixTailor of 4" in str(found)
