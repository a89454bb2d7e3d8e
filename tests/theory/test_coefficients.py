"""Multi-Krum's coefficient, the bounds side by side, and what it costs to state f too high."""

import math

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.testing.robustness import climb
from mixtailor.theory import (
    blanchard_factor,
    compare_krum_bounds,
    krum_coefficient,
    multi_krum_coefficient,
    overstated_f,
)


def test_multi_krum_by_hand() -> None:
    """n = 5, f = 1: h = 4, a = 2, S = 16/3; with z = 1 of m = 4 the root is sqrt(3)/4 + sqrt(2/3) + 1/4."""
    root = math.sqrt(3) / 4 + math.sqrt((16 / 3) / (4 * 2)) + 0.25
    assert multi_krum_coefficient(5, 1) == pytest.approx(root**2)
    assert multi_krum_coefficient(5, 1, m=1) == pytest.approx(krum_coefficient(5, 1))
    assert multi_krum_coefficient(9, 0) == 0.0  # the mean of all
    assert multi_krum_coefficient(12, 2, d=16, p=4.0) > multi_krum_coefficient(12, 2)


@pytest.mark.parametrize(("n", "f"), [(9, 2), (12, 2), (12, 4), (25, 5), (25, 11)])
def test_multi_krum_is_never_worse_than_krum_and_below_the_rule_s_own(n, f) -> None:
    """For every m; the rule gives a simpler and larger number."""
    for m in range(1, n - f + 1):
        tight = multi_krum_coefficient(n, f, m)
        assert tight <= krum_coefficient(n, f)
        assert m == 1 or tight <= mt.MultiKrum(f, m=m).kappa(n, f, 1)
    assert multi_krum_coefficient(n, f) <= mt.MultiKrum(f).kappa(n, f, 1)


@pytest.mark.parametrize("m", [1, 3, 7, None])
@pytest.mark.parametrize("d", [1, 2])
def test_no_search_climbs_above_multi_krum_s_coefficient(m, d) -> None:
    """Whatever the rows are."""
    worst = climb(mt.MultiKrum(2, m=m), 9, 2, d=d, steps=300)
    assert 0.05 < worst.ratio <= multi_krum_coefficient(9, 2, m)


def test_m_is_at_most_the_number_of_honest_rows() -> None:
    """More could all be Byzantine but one."""
    with pytest.raises(ValueError, match="m <= n - f = 10"):
        multi_krum_coefficient(12, 2, m=11)


def test_the_remark_as_numbers() -> None:
    """The paper's bound is the tighter one for every n and f, by a factor that grows with both."""
    assert blanchard_factor(12, 2) == pytest.approx(2 * (10 + (2 * 8 + 4 * 9) / 6))
    for n in range(3, 60):
        for f in range((n - 3) // 2 + 1):
            found = compare_krum_bounds(n, f)
            assert found.mixtailor == pytest.approx(4 * (n - f - 2) / (n - 2 * f - 2))
            assert found.tighter_by > 1.0
    assert compare_krum_bounds(50, 10).tighter_by > compare_krum_bounds(12, 2).tighter_by


@pytest.mark.parametrize(("n", "f", "stated"), [(11, 0, 2), (11, 1, 2), (11, 2, 2), (23, 3, 5)])
def test_stating_f_too_high_costs_every_rule_as_much_as_proved(n, f, stated) -> None:
    """The proof's own rows, for every rule with a coefficient: all return 0, and the error is the bound."""
    rows = np.zeros((n, 1))
    rows[:stated] = 1.0
    honest = rows[: n - f]
    rules = [mt.TrimmedMean(stated), mt.Krum(stated), mt.Comed(), mt.CTMA(stated), mt.NNM(stated) >> mt.Comed()]
    for rule in rules:
        error = float(((rule(rows) - honest.mean(axis=0)) ** 2).sum()) / float(honest.var(axis=0).sum())
        assert error == pytest.approx(overstated_f(n, f, stated).error), rule
    if f == stated:
        assert overstated_f(n, f, stated).error == overstated_f(n, f, stated).best


def test_the_price_grows_with_what_is_stated() -> None:
    """And there is none where nothing is stated."""
    prices = [overstated_f(20, 1, stated).error for stated in range(1, 10)]
    assert prices == sorted(prices) and len(set(prices)) == len(prices)
    assert overstated_f(20, 0, 0).error == 0.0
    for f, stated in ((3, 2), (0, 10)):
        with pytest.raises(ValueError, match="f <= stated < n/2"):
            overstated_f(20, f, stated)
