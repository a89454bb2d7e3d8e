"""The appendix's problems P1, P2 and P3."""

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import ALIE, Decoy, PoolAttack, Tailored, TwinOutliers

POOL = mt.MixTailor([mt.Krum(2), mt.Comed(), mt.GeometricMedian()])


def worst(pool, honest, own, sent):
    """The definition: the largest product of a rule's answer with the mean of all correct rows."""
    mean = np.vstack([honest, own]).mean(axis=0)
    return max(float(rule(np.vstack([honest, sent])) @ mean) for rule in pool.rules)


@pytest.mark.parametrize("eps", [0.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_value_is_the_definitions_and_not_above_any_start(seed, eps) -> None:
    """Whatever the starts are; with a filter, of the starts moved apart."""
    everyone = rows(12, seed=seed)
    honest, own = everyone[:10], everyone[10:]
    starts = (Tailored(0.1), Tailored(10.0), ALIE(1.5), TwinOutliers(distance=10.0), Decoy(distance=5.0))
    made = PoolAttack(POOL, eps=eps, starts=starts, budget=60).craft(honest, 2, own=own, rng=seed)
    assert made.facts["value"] == pytest.approx(worst(POOL, honest, own, made.rows), rel=1e-6)
    assert made.facts["value"] <= min(made.facts["starts"].values())
    if eps == 0.0:
        for start in starts:
            assert made.facts["value"] <= worst(POOL, honest, own, start(honest, 2, own=own)) + 1e-9, start
    assert made.facts["feasible"] and np.linalg.norm(made.rows[0] - made.rows[1]) >= eps
    assert made.facts["broken"] == (made.facts["value"] < 0)


def test_many_rows_all_evade_the_filter() -> None:
    """Every pair, not only neighbours."""
    honest = rows(15, seed=4)
    made = PoolAttack(mt.MixTailor([mt.Krum(4), mt.Comed()]), eps=2.0, budget=30).craft(honest, 4, rng=0)
    apart = np.linalg.norm(made.rows[:, None] - made.rows[None], axis=2)[np.triu_indices(4, 1)]
    assert made.facts["feasible"] and apart.min() >= 2.0
    assert mt.SimilarityFilter(eps=2.0) is not None


@pytest.mark.parametrize("wide", [1.5, 5.0])
@pytest.mark.parametrize("mean", [0.05, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_with_a_filter_one_update_breaks_krum_and_the_others_are_elsewhere(seed, mean, wide) -> None:
    """However wide the filter is: P1 finds what a scan finds with one update on P3's line and the other far from it."""
    everyone = mean + np.random.default_rng([seed, 5]).normal(size=(12, 30))
    own, honest, gradient = everyone[:2], everyone[2:], everyone.mean(axis=0)
    eps = wide * float(np.median(np.linalg.norm(honest[:, None] - honest[None], axis=2)[np.triu_indices(10, 1)]))
    away = 1.01 * eps * gradient / np.linalg.norm(gradient)
    pool = mt.MixTailor([mt.Krum(2)])
    scan = min(
        worst(pool, honest, own, [-size * gradient, -size * gradient + side * away])
        for size in np.geomspace(0.1, 10.0, 40)
        for side in (-1.0, 1.0)
    )
    facts = PoolAttack(pool, eps=eps, budget=100).craft(honest, 2, own=own, rng=0).facts
    assert facts["feasible"] and facts["candidates"] <= 200
    assert facts["value"] <= scan + 0.1 * float(gradient @ gradient)
    assert facts["broken"] or scan >= 0.0


def test_p3_is_minus_lambda_times_the_sum() -> None:
    """Of all correct rows, and its value is the least of a scan over lambda, or lower."""
    everyone = rows(12, seed=5)
    honest, own = everyone[:10], everyone[10:]
    made = PoolAttack(POOL, problem="P3", budget=60).craft(honest, 2, own=own)
    np.testing.assert_allclose(made.rows, [-made.facts["lambda"] * everyone.sum(axis=0)] * 2, rtol=1e-9)
    scan = [worst(POOL, honest, own, [-t * everyone.sum(axis=0)] * 2) for t in np.geomspace(1e-5, 1e2, 200)]
    assert made.facts["value"] <= min(scan) + 0.02 * abs(min(scan))
    assert made.facts["value"] == pytest.approx(worst(POOL, honest, own, made.rows), rel=1e-6)


@pytest.mark.parametrize(("n", "f", "d"), [(9, 2, 5), (12, 2, 40), (13, 3, 20)])
@pytest.mark.parametrize("mean", [0.0, 0.1, 0.5, 2.0])
def test_p1_is_never_above_p3(n, f, d, mean) -> None:
    """Without a filter P1 may send P3's rows: 48 instances, four pools each."""
    pools = [
        mt.MixTailor([mt.Krum(f), mt.Comed()]),
        mt.MixTailor([mt.Comed(), mt.GeometricMedian(), mt.TrimmedMean(f)]),
        mt.MixTailor([mt.NNM(f=f) >> mt.Comed(), mt.NNM(f=f) >> mt.GeometricMedian()]),
        mt.MixTailor([mt.Mean(), mt.Krum(f)]),
    ]
    for seed, pool in enumerate(pools):
        everyone = mean + np.random.default_rng([seed, n]).normal(size=(n, d))
        honest, own = everyone[f:], everyone[:f]
        first, third = (
            PoolAttack(pool, problem=problem, budget=24).craft(honest, f, own=own, rng=seed).facts
            for problem in ("P1", "P3")
        )
        assert first["value"] <= third["value"] and first["starts"]["P3"] == third["value"]


def test_p3_searches_lambda_of_both_signs() -> None:
    """Against a rule that steps along minus the mean, rows along the gradient do harm, and rows against it do not."""

    def turned(matrix):
        return -np.asarray(matrix).mean(axis=0)

    everyone = rows(12, seed=3)
    made = PoolAttack(mt.MixTailor([turned]), problem="P3", budget=40).craft(everyone[:10], 2, own=everyone[10:])
    unattacked = float(turned(everyone) @ everyone.mean(axis=0))
    assert made.facts["lambda"] < 0.0 and made.facts["value"] < unattacked


@pytest.mark.parametrize("seed", range(6))
def test_p3_finds_the_window_in_which_krum_selects_updates_along_the_mean(seed) -> None:
    """Where Krum selects no update against the mean, a short one along it descends least: no scan is 2 % better."""
    everyone = 1.0 + np.random.default_rng([seed, 11]).normal(size=(11, 8))
    own, honest, mean = everyone[:1], everyone[1:], everyone.mean(axis=0)
    scan = min(
        float(mt.Krum(1)(np.vstack([honest, -size * mean])) @ mean)
        for size in np.concatenate([np.geomspace(0.1, 10.0, 100), -np.geomspace(0.1, 10.0, 100)])
    )
    found = PoolAttack(mt.Krum(1), problem="P3", budget=100).craft(honest, 1, own=own, rng=0).facts
    assert found["value"] <= scan + 0.02 * abs(scan)


@pytest.mark.parametrize("seed", range(8))
def test_p3_finds_windows_in_which_krum_selects_much_shorter_updates(seed) -> None:
    """Honest updates that agree: Krum follows updates along the mean down to a tenth of it or less, and not below."""
    random = np.random.default_rng([seed, 12])
    everyone = random.normal(size=20) + random.normal(size=(11, 20))
    own, honest, mean = everyone[:2], everyone[2:], everyone.mean(axis=0)
    scan = min(
        float(mt.Krum(2)(np.vstack([honest, [-size * mean] * 2])) @ mean)
        for size in np.concatenate([np.geomspace(0.01, 10.0, 200), -np.geomspace(0.01, 10.0, 200)])
    )
    found = PoolAttack(mt.Krum(2), problem="P3", budget=100).craft(honest, 2, own=own, rng=0).facts
    assert found["value"] <= scan + 0.02 * float(mean @ mean)


@pytest.mark.parametrize("budget", [8, 9, 15, 16, 31, 100])
def test_p3_keeps_to_its_budget(budget) -> None:
    """The least budget, too."""
    made = PoolAttack(POOL, problem="P3", budget=budget).craft(rows(12), 2, rng=0)
    assert made.facts["candidates"] <= budget


@pytest.mark.parametrize("seed", [1, 3])
def test_p3_finds_the_narrow_window_in_which_selecting_rules_follow(seed) -> None:
    """Half of `default_pool` follows rows of a few sizes only: a scan of 400 lambdas is not more than 2 % better."""
    everyone = 0.3 + np.random.default_rng([seed, 7]).normal(size=(12, 30))
    own, honest = everyone[:2], everyone[2:]
    pool = mt.MixTailor(mt.default_pool(2))
    mean = everyone.mean(axis=0)

    def value(size):
        return max(float(rule(np.vstack([honest, [-size * mean] * 2])) @ mean) for rule in pool.rules)

    scan = min(map(value, np.geomspace(0.1, 10.0, 400)))
    for budget in (100, 200):
        found = PoolAttack(pool, problem="P3", budget=budget).craft(honest, 2, own=own, rng=0).facts
        assert found["value"] <= scan + 0.02 * abs(scan) and found["candidates"] <= budget


def test_rules_that_can_be_broken_are() -> None:
    """The mean, without bound; Krum, by a row near the others; and the median is not."""
    honest = 0.3 + rows(seed=1) - 0.5
    assert PoolAttack(mt.Mean(), budget=30).craft(honest, 2).facts["broken"]
    assert PoolAttack(mt.Krum(2), budget=30).craft(honest, 2).facts["broken"]
    facts = PoolAttack(mt.MixTailor([mt.Krum(2), mt.Comed()]), budget=60).craft(3.0 + honest, 2).facts
    assert not facts["broken"] and facts["value"] > 0


def test_one_row_is_not_similar_to_itself() -> None:
    """f = 1 has no pair, so the filter asks nothing."""
    assert PoolAttack(mt.MixTailor([mt.Krum(1), mt.Comed()]), eps=1e6, budget=20).craft(rows(), 1).facts["feasible"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"problem": "P4"}, "'P1', 'P2' or 'P3'"),
        ({"eps": -1.0}, "eps >= 0"),
        ({"problem": "P3", "eps": 1.0}, "eps = 0 for P3"),
        ({"starts": ()}, "at least one attack"),
    ],
)
def test_bad_input(changes, sentence) -> None:
    """A sentence each."""
    with pytest.raises(ValueError, match=sentence):
        PoolAttack(POOL, **changes)


def test_no_start_that_fits() -> None:
    """Two rows are needed for twins."""
    with pytest.raises(ValueError, match="can start a search with f = 1"):
        PoolAttack(mt.Krum(1), starts=(TwinOutliers(),))(rows(), 1)
