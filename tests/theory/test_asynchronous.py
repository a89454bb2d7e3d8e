"""Conditions of asynchronous training, by hand and against counting."""

import math

import pytest

from mixtailor.theory import majority_risk, weighted_share, zeno_score


def test_the_share_is_that_of_the_heaviest() -> None:
    found = weighted_share([1.0, 3.0, 2.0, 4.0], f=1)
    assert found.share == 0.4 and found.holds and found.most == 1
    assert weighted_share([1.0, 3.0, 2.0, 4.0], f=2).share == pytest.approx(0.7)
    with pytest.raises(ValueError, match="not negative"):
        weighted_share([-1.0, 2.0], f=1)


def test_zeno_accepts_descent_and_refuses_ascent() -> None:
    assert zeno_score(2.0, 4.0, rate=0.5, rho=0.1, epsilon=0.0) == pytest.approx(0.5 * 2.0 - 0.1 * 4.0)
    assert zeno_score(-1.0, 1.0, rate=0.1, rho=0.01, epsilon=0.5) < 0.0


def test_a_majority_is_counted() -> None:
    """Of six clients two are Byzantine; a pair has at least one in 9 of 15 draws: that is no honest majority."""
    assert majority_risk(6, 2, 2) == pytest.approx(9 / 15)
    assert majority_risk(6, 2, 3) == pytest.approx(math.comb(2, 2) * 4 / math.comb(6, 3))
    assert majority_risk(6, 2, 3, rounds=2) == pytest.approx(1 - (1 - 4 / 20) ** 2)
