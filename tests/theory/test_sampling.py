"""The f to declare when clients are sampled, against exact counting."""

import math
from fractions import Fraction

import numpy as np
import pytest

from mixtailor.theory import f_for_sampling, least_sample, local_error, sampling_failure


def exact_tail(population, byzantine, sampled, f):
    """P(X > f) by counting draws."""
    bad = sum(
        math.comb(byzantine, k) * math.comb(population - byzantine, sampled - k)
        for k in range(f + 1, min(byzantine, sampled) + 1)
        if sampled - k <= population - byzantine
    )
    return Fraction(bad, math.comb(population, sampled))


def test_by_hand():
    """Ten clients, five Byzantine, five drawn: P(X = 5) = 1/252 and P(X >= 4) = 26/252."""
    assert sampling_failure(10, 5, 5, 4) == pytest.approx(1 / 252)
    assert sampling_failure(10, 5, 5, 3) == pytest.approx(26 / 252)
    assert f_for_sampling(10, 5, 5, failure=1 / 252) == 4  # exactly reached
    assert f_for_sampling(10, 5, 5, failure=0.99 / 252) == 5
    assert f_for_sampling(10, 5, 5, failure=26 / 252) == 3


@pytest.mark.parametrize("population", [1, 2, 7, 12])
def test_every_small_case_against_counting(population):
    """The smallest f whose exact tail is within the failure, also where the failure is a tail itself."""
    for byzantine in range(population + 1):
        for sampled in range(1, population + 1):
            tails = [exact_tail(population, byzantine, sampled, f) for f in range(sampled + 1)]
            for failure in {0.0, 1e-6, 0.05, 1.0, *(float(tail) for tail in tails)}:
                wanted = next(f for f, tail in enumerate(tails) if tail <= Fraction(failure) * Fraction("1.000000001"))
                assert f_for_sampling(population, byzantine, sampled, failure) == wanted


@pytest.mark.parametrize(("size", "byzantine", "sampled"), [(1000, 100, 50), (10_000, 1_000, 100), (500, 200, 499)])
def test_the_tail_far_out_against_counting(size, byzantine, sampled):
    """At one in a million, a billion and 10^12, f is exact."""
    for failure in (1e-6, 1e-9, 1e-12):
        f = f_for_sampling(size, byzantine, sampled, failure)
        assert exact_tail(size, byzantine, sampled, f) <= Fraction(failure)
        assert f == 0 or exact_tail(size, byzantine, sampled, f - 1) > Fraction(failure)


def test_edges():
    """Nobody lies; everybody is drawn; everybody lies; certainty is asked for; any failure is accepted."""
    assert f_for_sampling(1000, 0, 50) == 0
    assert f_for_sampling(1000, 100, 1000) == 100
    assert f_for_sampling(20, 20, 5) == 5
    assert f_for_sampling(1000, 100, 50, failure=0.0) == 50
    assert f_for_sampling(1000, 100, 50, failure=1.0) == 0
    assert f_for_sampling(10, 8, 5, failure=0.999) == 3  # three at least are always among the five
    assert sampling_failure(10, 8, 5, 2) == 1.0


def test_rounds_share_the_failure():
    """1,000 rounds at 1e-3 in all are one round at 1e-6."""
    assert f_for_sampling(1000, 100, 50, failure=1e-3, rounds=1000) == f_for_sampling(1000, 100, 50, failure=1e-6)


def test_large_populations():
    """A million clients: the tail is found without counting them all."""
    f = f_for_sampling(1_000_000, 100_000, 1_000)
    assert sampling_failure(1_000_000, 100_000, 1_000, f) <= 1e-6 < sampling_failure(1_000_000, 100_000, 1_000, f - 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((10, 11, 5), "byzantine <= population and got byzantine = 11 of 10"),
        ((10, 1, 11), "sampled <= population"),
        ((10, 1, 0), "sampled >= 1"),
        ((10, -1, 5), "byzantine >= 0"),
        ((10, 1, 5, 1.5), "failure from 0 to 1"),
    ],
)
def test_errors_say_what_is_needed(arguments, sentence):
    """Wrong numbers get a sentence."""
    with pytest.raises(ValueError, match=sentence):
        f_for_sampling(*arguments)


def test_the_least_sample_has_an_honest_majority_and_no_smaller_one_has():
    """Over 100 rounds with one failure in a hundred; against exact tails."""
    for population, byzantine in ((50, 5), (200, 20), (200, 60)):
        found = least_sample(population, byzantine, 0.01, rounds=100)
        for sampled in range(1, found + 1):
            # More than half of the sample, or exactly half, may not be Byzantine.
            tail = exact_tail(population, byzantine, sampled, (sampled - 1) // 2)
            assert (tail <= 1e-4) == (sampled == found), sampled


def test_the_least_sample_of_a_population_without_byzantine_clients_is_one():
    """And half of the clients are too many."""
    assert least_sample(10, 0) == 1
    with pytest.raises(ValueError, match="fewer than half"):
        least_sample(10, 5)


def test_local_steps_average_the_noise_and_not_the_heterogeneity():
    """Measured: the variance of what honest clients send is sigma^2 / K + Delta^2, within the sampling error."""
    random = np.random.default_rng(0)
    clients, steps, d, rounds = 8, 5, 20, 400
    centres = random.normal(size=(clients, d))
    delta = float(np.sqrt(((centres - centres.mean(axis=0)) ** 2).sum(axis=1).mean()))
    sent = centres + random.normal(size=(rounds, steps, clients, d)).mean(axis=1)
    variance = float(((sent - sent.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean())
    # The mean over clients takes its own share of the noise off.
    bound = local_error(1.0, math.sqrt(d), delta, steps=steps)
    assert 0.9 * bound < variance <= bound
    assert local_error(0.5, 2.0, 1.0) == 2.5
