"""The bound on one round: worked out by hand, and reached."""

import math

import pytest

from mixtailor.theory import one_round


def test_by_hand() -> None:
    found = one_round(3.0, learning_rate=0.5, momentum=0.5, slack=2.0, gradient=1.0, smoothness=2.0)
    assert (found.length, found.step, found.total) == (6.0, 3.0, 6.0)
    assert found.rise == pytest.approx(1.0 * 6.0 + 0.5 * 2.0 * 36.0)


def test_the_last_rounds_hold_where_this_one_does_not() -> None:
    assert one_round(math.inf, learning_rate=1.0).length == math.inf
    assert one_round(math.inf, learning_rate=1.0, growth=2.0, typical=1.5).length == 3.0
    assert one_round(1.0, learning_rate=1.0, growth=2.0, typical=1.5).length == 1.0


def test_the_rise_is_that_of_a_quadratic() -> None:
    """F(w) = L w^2 / 2 reaches the descent lemma's bound."""
    curve, at, rate = 3.0, 2.0, 0.1
    found = one_round(5.0, learning_rate=rate, gradient=curve * at, smoothness=curve)
    after = at + rate * 5.0
    assert found.rise == pytest.approx(curve / 2 * (after**2 - at**2))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="momentum < 1"):
        one_round(1.0, learning_rate=0.1, momentum=1.0)
    with pytest.raises(ValueError, match="slack >= 1"):
        one_round(1.0, learning_rate=0.1, slack=0.5)
