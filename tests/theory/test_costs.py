"""What a pool costs."""

import pytest

from mixtailor.theory import pool_cost


def test_by_hand():
    """Costs 1, 2, 6: mean 3, variance (4 + 1 + 9)/3; with probabilities 1/2, 1/4, 1/4 the mean is 2.5."""
    cost = pool_cost([1.0, 2.0, 6.0])
    assert (cost.expected, cost.worst, cost.dearest) == (pytest.approx(3.0), 6.0, 2)
    assert cost.deviation == pytest.approx((14 / 3) ** 0.5)
    assert pool_cost([1.0, 2.0, 6.0], [0.5, 0.25, 0.25]).expected == pytest.approx(2.5)


def test_a_rule_that_is_never_drawn_costs_nothing():
    """The worst case is over rules of positive probability."""
    assert pool_cost([1.0, 2.0, 6.0], [0.5, 0.5, 0.0]).worst == 2.0


def test_more_rules_of_the_same_cost_change_nothing():
    """Only dearer rules make a pool dearer."""
    assert pool_cost([2.0] * 64).expected == pytest.approx(pool_cost([2.0]).expected)


def test_negative_costs_are_refused():
    """A sentence."""
    with pytest.raises(ValueError, match="not negative, and the least is -1"):
        pool_cost([1.0, -1.0])
