"""A bound on the length of a result: what one round can do at most, by hand, by proof and by search."""

import numpy as np
import pytest

import mixtailor as mt
from mixtailor import theory
from mixtailor.testing import climb
from mixtailor.testing.laws import FixedKey

N, F = 11, 2


def test_a_value_worked_out_by_hand() -> None:
    """Lengths 1, 2, 3, 5 and 1000 with f = 1: the second largest is 5, and the mean of length 202.2 is cut to it."""
    rows = np.array([[1.0], [2.0], [3.0], [5.0], [1000.0]])
    result = mt.Bounded(mt.Mean(), f=1).aggregate(rows)
    assert result.update == pytest.approx([5.0])
    assert result.facts["scale"] == 5.0 and result.facts["shortened"] == pytest.approx(5 / 202.2)
    assert result.weights == pytest.approx(np.full(5, 0.2 * 5 / 202.2))


def test_a_result_within_the_bound_stays_as_it_is_bit_for_bit() -> None:
    rows = np.random.default_rng(0).normal(size=(9, 40)) + 1.0
    for rule in (mt.Krum(2), mt.Comed(), mt.GeometricMedian()):
        assert np.array_equal(mt.Bounded(rule, f=2)(rows), rule(rows))


@pytest.mark.parametrize("inner", [mt.Mean(), mt.Bulyan(F, then=mt.Mean()), mt.Comed()], ids=repr)
def test_no_search_makes_a_result_longer_than_the_longest_honest_update(inner: mt.Rule) -> None:
    """Random far, near, equal and opposed Byzantine rows: the formula of `one_round` holds for every rule."""
    rng, rule = np.random.default_rng(1), mt.Bounded(inner, f=F)
    most = 0.0
    for _ in range(150):
        honest = rng.normal(size=(N - F, 3)) * rng.choice([0.1, 1.0, 10.0]) + rng.normal(size=3)
        aim = rng.normal(size=3) * 10.0 ** rng.uniform(-2, 8)
        rows = np.vstack([honest, aim + rng.choice([0.0, 1.0]) * rng.normal(size=(F, 3))])
        bound = theory.one_round(float(np.linalg.norm(honest, axis=1).max()), learning_rate=1.0).length
        reached = float(np.linalg.norm(rule(rows))) / bound
        assert reached <= 1.0 + 1e-9
        most = max(most, reached)
    if isinstance(inner, mt.Mean):
        assert most > 0.95, "the bound is reached where the rule itself has none"


@pytest.mark.parametrize("inner", [mt.TrimmedMean(F), mt.Krum(F), mt.MultiKrum(F)], ids=repr)
def test_no_search_climbs_above_the_coefficient(inner: mt.Rule) -> None:
    rule = mt.Bounded(inner)
    kappa = (inner.kappa(N, F, 2) ** 0.5 + (F / (N - 2 * F)) ** 0.5) ** 2
    assert rule.kappa(N, F, 2) == pytest.approx(kappa)
    assert climb(rule, N, F, d=2, steps=60, entropy=FixedKey(0)).ratio <= kappa


def test_the_cut_of_the_honest_mean_is_as_small_as_proved() -> None:
    """Where two honest rows are far and the Byzantine ones hide, the mean's cut has its coefficient, f/(n - 2f)."""
    honest = np.array([[1.0]] * 7 + [[1.0 + 90.0]] * 2)
    rows = np.vstack([honest, np.zeros((2, 1))])
    bounded = mt.Bounded(mt.Omniscient(), f=F)(rows, honest=range(9))
    apart, variance = float((bounded - honest.mean()).item()) ** 2, float(honest.var())
    assert apart == pytest.approx(F / (N - 2 * F) * variance)


def test_coefficients_that_are_not_proved_are_not_declared() -> None:
    assert mt.Bounded(mt.Mean(), f=2).kappa(11, 2, 5) is None
    assert mt.Bounded(mt.Krum(2), limit=3.0).kappa(11, 2, 5) is None
    assert mt.Bounded(mt.TrimmedMean(2)).weighted_kappa(0.5, 5) is None


def test_weights_count_for_the_bound_too() -> None:
    """The longest update has a tenth of the weight, which may be Byzantine: the bound is the next length."""
    rows = np.array([[1.0], [2.0], [100.0]])
    rule = mt.Bounded(mt.Mean(), f=1)
    assert rule(rows, weights=[5.0, 4.0, 1.0], share=0.1) == pytest.approx([2.0])
    assert rule(rows, weights=[5.0, 4.0, 1.0], share=0.05) == pytest.approx([11.3])
    assert mt.Bounded(mt.TrimmedMean(1)).weighted_kappa(0.2, 1) == pytest.approx((2 * (1 / 3) ** 0.5) ** 2)


def test_wrong_arguments_are_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"slack >= 1"):
        mt.Bounded(mt.Comed(), slack=0.5)
    with pytest.raises(ValueError, match=r"one f for itself and for Krum\(f=2\) and got 1 and 2"):
        mt.Bounded(mt.Krum(2), f=1)
    with pytest.raises(ValueError, match=r"Write Guarded\(Memory"):
        mt.Bounded(mt.recommended(2))
    with pytest.raises(ValueError, match=r"Write Guarded\(Memory"):
        mt.Memory(mt.Bounded(mt.GeometricMedian()))
    with pytest.raises(ValueError, match="at least 5 rows"):
        mt.Bounded(mt.Mean(), f=2)(np.ones((4, 2)))


def test_by_name_and_inside_a_pool() -> None:
    assert mt.make_rule("bounded(krum)", f=2) == mt.Bounded(mt.Krum(2), f=2)
    pool = mt.Bounded(mt.MixTailor([mt.Krum(1), mt.Comed()]), f=1)
    drawn = pool.aggregate(np.eye(6) + 1.0, entropy=FixedKey(0)).rule
    assert isinstance(drawn, mt.Bounded) and drawn.rule in (mt.Krum(1), mt.Comed())


@pytest.mark.parametrize("far", [np.inf, np.nan, 1e308, 1e-320])
def test_whatever_f_rows_hold_the_result_is_finite_and_bounded(far: float) -> None:
    rows = np.vstack([np.random.default_rng(0).normal(size=(7, 5)), np.full((2, 5), far)])
    result = mt.Bounded(mt.Mean(), f=2)(rows)
    assert np.isfinite(result).all() and np.linalg.norm(result) <= np.linalg.norm(rows[:7], axis=1).max() * (1 + 1e-9)
