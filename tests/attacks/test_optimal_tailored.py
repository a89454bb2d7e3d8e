"""The optimal tailored attack, in all of the paper's forms."""

import itertools
import math

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import OptimalTailored, Sees


def instance(n, f, d, seed):
    random = np.random.default_rng(seed)
    everyone = random.normal(size=(n, d)) + random.normal(size=d) * 0.5
    return everyone[: n - f], everyone[n - f :]


def test_equal_rows_reach_the_largest_lambda_of_the_ray() -> None:
    """Krum follows -t g up to some t, which a fine scan finds too."""
    honest, own = instance(12, 2, 50, 0)
    g = mt.Krum(2)(np.vstack([honest, own]))
    follows = [t for t in np.arange(0.005, 1.5, 0.005) if np.allclose(mt.Krum(2)([*honest, -t * g, -t * g]), -t * g)]
    made = OptimalTailored(mt.Krum(2)).craft(honest, 2, own=own)
    assert made.facts["feasible"] and made.facts["angle"] == pytest.approx(math.pi, abs=1e-6)
    assert max(follows) <= made.facts["lambda"] < max(follows) + 0.005
    np.testing.assert_allclose(mt.Krum(2)(np.vstack([honest, made.rows])), -made.facts["lambda"] * g, rtol=1e-9)


def test_separate_rows_go_farther_on_krum() -> None:
    """On this instance equal rows end at 2.07, by a scan as well; separate ones pass 2.7, along the same ray."""
    honest, own = instance(7, 2, 3, 14)
    g = mt.Krum(2)(np.vstack([honest, own]))
    follows = [t for t in np.arange(0.02, 6, 0.02) if np.allclose(mt.Krum(2)([*honest, -t * g, -t * g]), -t * g)]
    assert max(follows) == pytest.approx(2.06)
    attack = OptimalTailored(mt.Krum(2), rows="separate", budget=400, tolerance=1e-6)
    made = attack.craft(honest, 2, own=own, rng=1)
    assert made.facts["equal_lambda"] == pytest.approx(2.0709, abs=1e-3)
    assert made.facts["lambda"] > 2.7
    np.testing.assert_allclose(mt.Krum(2)(np.vstack([honest, made.rows])), -made.facts["lambda"] * g, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_separate_rows_are_never_worse(seed) -> None:
    """The equal rows are among the candidates."""
    honest, own = instance(9, 2, 4, seed)
    facts = OptimalTailored(mt.Krum(2), rows="separate").craft(honest, 2, own=own, rng=0).facts
    if facts["equal_lambda"] is not None:
        assert facts["feasible"] and facts["lambda"] >= facts["equal_lambda"]


def test_the_mean_has_no_largest_lambda() -> None:
    """Its answer is brought to -lambda g exactly, up to the largest lambda that is looked for."""
    honest, own = instance(8, 2, 5, 1)
    made = OptimalTailored(mt.Mean(), highest=500.0).craft(honest, 2, own=own)
    g = np.vstack([honest, own]).mean(axis=0)
    assert made.facts["lambda"] == pytest.approx(500.0)
    np.testing.assert_allclose(np.vstack([honest, made.rows]).mean(axis=0), -500.0 * g, rtol=1e-9)


def test_where_no_row_turns_the_answer_it_says_so() -> None:
    """The median of rows that all point one way."""
    honest = 5.0 + rows(d=30)
    facts = OptimalTailored(mt.Comed()).craft(honest, 2).facts
    assert not facts["feasible"] and facts["angle"] < math.pi / 2


@pytest.mark.parametrize("form", ["equal", "separate"])
@pytest.mark.parametrize("k", [None, 7])
@pytest.mark.parametrize("models", [False, True])
def test_all_eight_forms(form, k, models) -> None:
    """Gradient or model, full or partial knowledge, equal or separate rows: the answer on the rows that the attacker
    knows or supposes is w0 - lambda (w - w0), with w the answer without attack on the same."""
    n, f, d = 12, 2, 40
    rule = mt.Krum(f) if k is None else mt.Mean()
    random = np.random.default_rng(6)
    start = 10.0 * random.normal(size=d) if models else np.zeros(d)
    honest, own = start + 0.3 + random.normal(size=(n - f, d)), start + 0.3 + random.normal(size=(f, d))
    attack = OptimalTailored(rule, rows=form, k=k, model=start if models else None, highest=20.0)
    made = attack.craft(honest, f, own=own, rng=0)
    supposed = imputed(honest, own, k)
    without = rule(np.vstack([supposed, own])) - start
    answer = rule(np.vstack([supposed, made.rows])) - start
    size = made.facts["lambda"]
    assert made.facts["feasible"] and size > 0
    assert np.linalg.norm(answer + size * without) < 2e-3 * size * np.linalg.norm(without)
    assert made.facts["angle"] == pytest.approx(math.pi, abs=1e-3)
    if form == "equal":
        np.testing.assert_array_equal(made.rows[0], made.rows[1])
    if k is not None and not models:
        twin = Sees(k) | OptimalTailored(rule, rows=form, highest=20.0)
        np.testing.assert_array_equal(made.rows, twin(honest, f, own=own, rng=0))


def imputed(honest, own, k):
    """The rows as the attacker supposes them: beyond the k known ones, the mean of those."""
    supposed = honest.copy()
    if k is not None:
        supposed[k - len(own) :] = np.vstack([own, honest[: k - len(own)]]).mean(axis=0)
    return supposed


def test_krum_cannot_be_turned_in_the_world_of_partial_knowledge() -> None:
    """Rows that are taken for the mean are what Krum chooses, whatever is sent: the attack says that it failed."""
    everyone = 0.3 + rows(12, d=40) - 0.5
    facts = OptimalTailored(mt.Krum(2), k=7).craft(everyone[:10], 2, own=everyone[10:]).facts
    assert not facts["feasible"] and facts["angle"] < math.pi / 2


def test_partial_knowledge_needs_own_rows() -> None:
    """They are the first of the k."""
    with pytest.raises(ValueError, match="needs own="):
        OptimalTailored(mt.Krum(2), k=5)(rows(), 2)


def test_evaluations_are_counted() -> None:
    """One for the answer without attack, one for each candidate, up to the budget."""
    facts = OptimalTailored(mt.Krum(2), budget=40).craft(rows(), 2).facts
    assert 21 <= facts["evaluations"] <= 41
    assert facts["errors"][0][0] == 2 and facts["errors"][-1][1] == pytest.approx(math.pi - facts["angle"], abs=1e-6)


def test_bad_input() -> None:
    """A sentence each."""
    for changes, sentence in (({"rows": "both"}, "'equal' or 'separate'"), ({"tolerance": 0.0}, "tolerance > 0")):
        with pytest.raises(ValueError, match=sentence):
            OptimalTailored(mt.Krum(2), **changes)
    with pytest.raises(ValueError, match="no opposite direction"):
        OptimalTailored(mt.Comed())(np.zeros((5, 3)), 1)
    assert repr(OptimalTailored(mt.Krum(2), rows="separate", model=np.zeros(3))).endswith("model=...)")


def largest_lambda(rule, honest, own):
    """By hand: each coordinate of the result can be anything between those for rows at minus and plus infinity."""
    f, d = len(own), honest.shape[1]
    g = rule(np.vstack([honest, own]))
    low, high = (rule(np.vstack([honest, np.full((f, d), far)])) for far in (-1e9, 1e9))
    ends = np.sort(np.stack([low, high]) / -g, axis=0)
    least, most = ends[0].max(), ends[1].min()
    return float(most) if most > max(least, 0.0) else None


@pytest.mark.parametrize("form", ["equal", "separate"])
@pytest.mark.parametrize("rule", [mt.Comed(), mt.TrimmedMean(4)])
@pytest.mark.parametrize(("n", "d"), [(12, 5), (12, 10), (13, 5)])
def test_columnwise_rules_are_solved_exactly(rule, n, d, form) -> None:
    """20 instances each: an attack is found where one exists and nowhere else, at the best lambda."""
    existing = 0
    for seed in range(20):
        everyone = 0.15 + np.random.default_rng(seed).normal(size=(n, d))
        honest, own = everyone[4:], everyone[:4]
        best = largest_lambda(rule, honest, own)
        made = OptimalTailored(rule, rows=form).craft(honest, 4, own=own, rng=seed)
        assert made.facts["feasible"] == (best is not None) and made.facts["evaluations"] == 2
        if best is not None:
            existing += 1
            assert made.facts["lambda"] == pytest.approx(best, rel=1e-9)
            g = rule(everyone)
            np.testing.assert_allclose(rule(np.vstack([honest, made.rows])), -best * g, rtol=1e-7, atol=1e-9)
    assert 2 <= existing < 20


def test_where_no_row_reaches_the_ray_the_result_is_the_nearest_to_it() -> None:
    """No point of the box of results is nearer to the opposite direction, by a scan of 20,000 of them."""
    random = np.random.default_rng(3)
    honest, own = 0.6 + random.normal(size=(8, 3)), 0.6 + random.normal(size=(4, 3))
    rule = mt.Comed()
    made = OptimalTailored(rule).craft(honest, 4, own=own)
    g = rule(np.vstack([honest, own]))
    assert not made.facts["feasible"]
    low, high = (rule(np.vstack([honest, np.full((4, 3), far)])) for far in (-1e9, 1e9))
    box = random.uniform(low, high, size=(20_000, 3))
    cosines = box @ -g / np.linalg.norm(box, axis=1) / np.linalg.norm(g)
    assert made.facts["angle"] >= math.pi - math.acos(cosines.max()) - 1e-9


def test_a_trimmed_mean_of_too_few_has_no_largest_lambda() -> None:
    """It trims one value at either end, and three rows are Byzantine."""
    honest, own = instance(9, 3, 4, 0)
    made = OptimalTailored(mt.TrimmedMean(1), highest=50.0).craft(honest, 3, own=own)
    g = mt.TrimmedMean(1)(np.vstack([honest, own]))
    np.testing.assert_allclose(mt.TrimmedMean(1)(np.vstack([honest, made.rows])), -50.0 * g, rtol=1e-9)


@pytest.mark.parametrize(("k", "seed"), [(None, 0), (9, 1)])
def test_models_against_the_median(k, seed) -> None:
    """The result is w0 - lambda (w - w0), on the rows that the attacker knows or supposes."""
    random = np.random.default_rng(seed)
    start = 10.0 * random.normal(size=5)
    honest, own = start + 0.1 * random.normal(size=(8, 5)), start + 0.1 * random.normal(size=(4, 5))
    made = OptimalTailored(mt.Comed(), k=k, model=start).craft(honest, 4, own=own, rng=0)
    supposed = imputed(honest, own, k)
    change = mt.Comed()(np.vstack([supposed, own])) - start
    result = mt.Comed()(np.vstack([supposed, made.rows])) - start
    assert made.facts["feasible"]
    np.testing.assert_allclose(result, -made.facts["lambda"] * change, atol=1e-6)


@pytest.mark.parametrize("rule", [mt.Comed(), mt.TrimmedMean(3)], ids=str)
def test_where_no_result_turns_against_g_the_result_is_near_the_best_corner(rule) -> None:
    """All results are within a right angle of g: none of the 2^d corners is farther from it by more than 0.01."""
    beyond = 0
    for seed in range(20):
        everyone = 0.3 + np.random.default_rng([4, seed]).normal(size=(11, 4))
        honest, own = everyone[:8], everyone[8:]
        g = rule(everyone)
        low, high = (rule(np.vstack([honest, np.full((3, 4), far)])) for far in (-1e9, 1e9))
        corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
        cosines = corners @ g / np.linalg.norm(corners, axis=1) / np.linalg.norm(g)
        made = OptimalTailored(rule).craft(honest, 3, own=own)
        if (corners @ g).min() >= 0.0:
            beyond += 1
            assert math.cos(made.facts["angle"]) <= cosines.min() + 0.01
            result = rule(np.vstack([honest, made.rows]))
            assert result @ g / np.linalg.norm(result) / np.linalg.norm(g) <= cosines.min() + 0.01
    assert beyond >= 3


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("n", "d"), [(7, 3), (12, 20)])
def test_separate_rows_find_what_two_places_on_the_ray_reach(n, d, seed) -> None:
    """One row at -t g, the other at half or one and a half times that: Krum may follow where equal rows fail."""
    random = np.random.default_rng([seed, n, d])
    everyone = 0.3 * random.normal(size=d) + random.normal(size=(n, d))
    own, honest = everyone[:2], everyone[2:]
    g = mt.Krum(2)(everyone)
    reached = [
        t
        for t in np.geomspace(0.1, 10.0, 100)
        for factor in (0.5, 1.0, 1.5)
        if np.allclose(mt.Krum(2)(np.vstack([honest, -t * g, -factor * t * g])), -t * g)
    ]
    facts = OptimalTailored(mt.Krum(2), rows="separate", budget=200).craft(honest, 2, own=own, rng=0).facts
    assert facts["feasible"] or not reached
    assert facts["lambda"] >= 0.75 * max(reached, default=0.0) or not reached
