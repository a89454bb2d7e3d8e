"""The mixture's condition and Theorem 3, by hand."""

import json
import math
from dataclasses import asdict

import pytest

from mixtailor.theory import (
    PowerSchedule,
    check_step_sizes,
    convergence_condition,
    krum_beta,
    mixture_condition,
    unequal_mixture,
)


def test_mixture_by_hand():
    """M = 64, q = 16, lambda = 1, L = 2, beta = 1: 4 > 3; margin 48/64 - 16/64 x 2 = 1/4; M > 48; q < 64/3."""
    result = mixture_condition(64, 16, largest=1.0, lipschitz=2.0, beta=1.0)
    assert (result.holds, result.threshold, result.margin) == (True, 3.0, 0.25)
    assert (result.least_rules, result.most_broken) == (49, 21)


@pytest.mark.parametrize(("lam", "lip", "beta"), [(1.0, 3.0, 1.0), (0.3, 1.0, 0.1), (0.1, 3.0, 0.1), (1e-3, 0.7, 7e-4)])
def test_solutions_are_the_edges_of_the_strict_inequality(lam, lip, beta):
    """One rule less, or one more broken, and the condition fails; 0.3/0.1 counts as 3."""
    for rules in range(1, 30):
        for broken in range(rules + 1):
            result = mixture_condition(rules, broken, largest=lam, lipschitz=lip, beta=beta)

            def holds(rules, broken):
                return mixture_condition(rules, broken, largest=lam, lipschitz=lip, beta=beta).holds

            assert holds(max(result.least_rules, broken), broken)
            if result.least_rules - 1 >= max(1, broken):
                assert not holds(result.least_rules - 1, broken)
            assert holds(rules, result.most_broken)
            if result.most_broken + 1 <= rules:
                assert not holds(rules, result.most_broken + 1)


def test_exactly_at_the_threshold_it_does_not_hold():
    """M/q = 4 and 1 + 0.3/0.1 = 4: the inequality is strict, though in binary 0.3/0.1 < 3."""
    assert not mixture_condition(4, 1, largest=0.3, lipschitz=1.0, beta=0.1).holds


def test_nothing_broken_always_holds():
    """q = 0 leaves beta itself as the margin."""
    result = mixture_condition(3, 0, largest=5.0, lipschitz=5.0, beta=0.5)
    assert result.holds and result.ratio is None and result.margin == 0.5 and result.least_rules == 1


def test_adversary_cannot_beat_the_margin():
    """The margin is attained: broken rules at -lambda L and good ones at beta give exactly it, and nothing less."""
    result = mixture_condition(5, 2, largest=2.0, lipschitz=1.5, beta=4.0)
    assert unequal_mixture([-3.0, -3.0, 4.0, 4.0, 4.0]).value == pytest.approx(result.margin)


def test_unequal_probabilities_by_hand():
    """0.45 + 0.45 - 0.1 x 4 = 0.5; the allowed share is 1 / (1 + 4)."""
    result = unequal_mixture([1.0, 1.0, -4.0], [0.45, 0.45, 0.1])
    assert result.value == pytest.approx(0.5) and result.holds and result.broken == (2,)
    assert result.allowed_share == pytest.approx(0.2)
    assert not unequal_mixture([1.0, 1.0, -4.0], [0.4, 0.4, 0.2]).holds  # exactly at the allowed share
    assert unequal_mixture([1.0, 2.0]).allowed_share == 1.0
    assert unequal_mixture([-1.0, -2.0]).allowed_share == 0.0


def test_krum_beta_is_below_every_product_the_bound_allows():
    """On a grid of plane vectors, |u - g|^2 <= bound implies u . g >= beta, with equality where |u - g|^2 = bound."""
    gradient, bound = 3.0, 5.0
    least = math.inf
    for step in range(360):
        turn = math.radians(step)
        u = (gradient + math.sqrt(bound) * math.cos(turn), math.sqrt(bound) * math.sin(turn))
        product = gradient * u[0]
        beta = krum_beta(math.hypot(*u), gradient, bound)
        assert product == pytest.approx(beta)
        least = min(least, krum_beta(math.hypot(*u), gradient, bound + 1.0) - product)
    assert least == pytest.approx(-0.5)  # a larger bound gives a smaller beta


def test_convergence_by_hand():
    """min 2^2 + min 2^2 - 0.5 = 7.5; alpha = acos(7.5 / (2 x 2.1 x 2.2)); theta = acos 0.9."""
    result = convergence_condition([2.0, 2.1], [2.0, 2.2], [0.9, 0.95], bound=0.5, steps=PowerSchedule(0.1, 0.75))
    assert result.beta == pytest.approx(7.5)
    assert result.alpha == pytest.approx(math.acos(7.5 / 9.24))
    assert result.theta == pytest.approx(math.acos(0.9))
    assert result.margin == pytest.approx(math.pi / 2 - result.alpha - result.theta)
    assert result.verdict == "holds on these states"
    assert json.loads(json.dumps(asdict(result)))["steps"]["sum_diverges"] is True


@pytest.mark.parametrize(
    ("cosine", "bound", "steps", "verdict"),
    [
        (0.9, 8.0, PowerSchedule(0.1, 0.75), "does not hold"),  # beta = 0
        (0.2, 0.5, PowerSchedule(0.1, 0.75), "does not hold"),  # the angles add up to more than pi/2
        (0.9, 0.5, PowerSchedule(0.1, 0.5), "does not hold"),
        (0.9, 0.5, 0.001, "does not hold"),
        (0.9, 0.5, lambda t: 0.1 / (t + 1), "not decided"),
        (0.2, 0.5, lambda t: 0.1 / (t + 1), "does not hold"),
    ],
)
def test_convergence_verdicts(cosine, bound, steps, verdict):
    """Each condition alone can fail; an unknown schedule leaves the rest undecided."""
    assert convergence_condition(2.0, 2.0, cosine, bound=bound, steps=steps).verdict == verdict


def test_a_bound_that_the_states_contradict_is_refused():
    """|E U| = 1 and |grad F| = 3 are 4 apart in square, which a bound of 0.1 forbids."""
    with pytest.raises(ValueError, match="at state 1 the norms 1 and 3 alone are 4 apart"):
        convergence_condition([2.0, 1.0], [2.0, 3.0], [0.9, 0.9], bound=0.1, steps=0.1)


@pytest.mark.parametrize(
    ("power", "sums", "squares"),
    [(0.0, True, False), (0.5, True, False), (0.51, True, True), (1.0, True, True), (1.01, False, True)],
)
def test_power_schedules_are_decided_exactly(power, sums, squares):
    """Both sums do as needed exactly for 1/2 < a <= 1."""
    result = check_step_sizes(PowerSchedule(0.3, power))
    assert (result.sum_diverges, result.squares_converge) == (sums, squares)
    assert result.verdict == ("hold" if sums and squares else "fail")


@pytest.mark.parametrize("power", [0.3, 0.75, 1.0, 2.0])
def test_callables_are_never_decided_but_measured(power):
    """A callable may change after the last step looked at: evidence, no verdict."""
    result = check_step_sizes(lambda t: 2.0 / (t + 1) ** power)
    assert result.verdict == "not decided" and result.power == pytest.approx(power, abs=1e-6)
    assert ("both would hold" in result.reason) == (0.5 < power <= 1.0)


def test_a_schedule_that_reaches_zero_is_not_decided():
    """Zero at the last step looked at, whatever comes later."""
    assert check_step_sizes(lambda t: 0.1 if t < 1000 else 0.0).verdict == "not decided"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: mixture_condition(3, 4, largest=1, lipschitz=1, beta=1), "4 broken of 3 rules"),
        (lambda: mixture_condition(3, 1, largest=1, lipschitz=1, beta=0), "beta > 0"),
        (lambda: mixture_condition(0, 0, largest=1, lipschitz=1, beta=1), "rules >= 1"),
        (lambda: unequal_mixture([1.0, 2.0], [0.5, 0.6]), "sum 1.1. Divide them by their sum"),
        (lambda: unequal_mixture([1.0, 2.0], [1.0]), "each of the 2 rules and got 1"),
        (lambda: unequal_mixture([1.0, math.nan]), "1 of 2 are not"),
        (lambda: convergence_condition([1.0], [1.0, 2.0], [0.5], bound=9, steps=0.1), "got 1, 2 and 1"),
        (lambda: convergence_condition(1.0, 1.0, 1.5, bound=9, steps=0.1), "cosines from -1 to 1 and got 1.5"),
        (lambda: check_step_sizes(0.0), "> 0"),
        (lambda: check_step_sizes(lambda t: -1.0), "not negative"),
        (lambda: PowerSchedule(0.1, -1.0), "power >= 0"),
    ],
)
def test_errors_say_what_is_needed(call, sentence):
    """Wrong numbers get a sentence."""
    with pytest.raises(ValueError, match=sentence):
        call()
