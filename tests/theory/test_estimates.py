"""Estimates of sigma, Delta, L and the angles, by hand and where the truth is known."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from mixtailor.theory import estimate

# Two workers, two resamples, one coordinate.
SMALL = np.array([[[[1.0], [3.0]], [[5.0], [5.0]]]])


def recorded(rng, *, states=1, workers=5, resamples=10, d=50, delta=0.5, length=1.0):
    """Gradients with sigma = 1, mean squared distance delta^2 of the workers from grad F, and |grad F| = length."""
    offsets = rng.standard_normal((workers, d))
    offsets -= offsets.mean(axis=0)
    offsets *= delta / math.sqrt((offsets**2).sum(axis=1).mean())
    noise = rng.standard_normal((states, workers, resamples, d)) / math.sqrt(d)
    return length / math.sqrt(d) + offsets[:, None, :] + noise


def test_by_hand():
    """Means 2 and 5, variances 2 and 0, mean variance 1.

    sigma^2 = 2. Delta^2 = 1.5^2 - (1 - 1/2) 1/2 = 2. L^2 = 3.5^2 - 1/(2 x 2) = 12. Mean square 15, so the
    cosine is sqrt(12/15).
    """
    result = estimate(SMALL)
    assert result.sigma.value == pytest.approx(math.sqrt(2.0))
    assert result.delta.value == pytest.approx(math.sqrt(2.0))
    assert result.lipschitz.value == pytest.approx(math.sqrt(12.0))
    assert result.angle.value == pytest.approx(math.acos(math.sqrt(12 / 15)))
    assert (result.states, result.workers, result.resamples, result.theta) == (1, 2, 2, None)


def test_with_a_given_gradient_by_hand():
    """grad F = 3: Delta^2 = (1 + 4)/2 - 1/2 = 2; L = 3 exactly; cosine 3.5 x 3 / (3 sqrt 15); w = -2 gives theta pi."""
    result = estimate(SMALL, truths=[[3.0]], models=[[-2.0]])
    assert result.delta.value == pytest.approx(math.sqrt(2.0))
    assert (result.lipschitz.value, result.lipschitz.low, result.lipschitz.high) == pytest.approx((3.0, 3.0, 3.0))
    assert result.angle.value == pytest.approx(math.acos(3.5 / math.sqrt(15)))
    assert result.theta is not None and result.theta.value == pytest.approx(math.pi)


def test_theta_by_hand():
    """Without noise: gradient (1, 0) and models (1, 1) and (0, 2) stand at 45 and 90 degrees; the larger counts."""
    block = np.tile(np.array([1.0, 0.0]), (3, 2, 1))
    result = estimate([block, block], models=[[1.0, 1.0], [0.0, 2.0]])
    assert result.theta is not None and result.theta.value == pytest.approx(math.pi / 2)
    assert result.sigma.value == 0.0 and result.sigma.high == 0.0
    assert estimate([block], models=[[1.0, 1.0]]).theta.value == pytest.approx(math.pi / 4)


def test_the_worst_state_and_worker_count():
    """Twice the gradients at a second state: every length doubles, the angle stays."""
    one, two = estimate(SMALL), estimate(np.concatenate([SMALL, 2.0 * SMALL]))
    for name in ("sigma", "delta", "lipschitz"):
        assert getattr(two, name).value == pytest.approx(2.0 * getattr(one, name).value)
    assert two.angle.value == pytest.approx(one.angle.value)


def test_noise_is_taken_off():
    """Over many recordings the squares are right on average; without taking noise off they are not.

    With 5 workers and 4 resamples the naive Delta^2 would be 0.25 + 0.8/4 = 0.45 and the naive L^2 1 + 1/20.
    """
    rng = np.random.default_rng(0)
    results = [estimate(recorded(rng, resamples=4), draws=20) for _ in range(300)]
    for name, truth in (("delta", 0.25), ("lipschitz", 1.0)):
        squares = np.array([getattr(result, name).value ** 2 for result in results])
        assert abs(squares.mean() - truth) < 4 * squares.std() / math.sqrt(len(squares))
    naive = np.array([estimate_naively(recorded(rng, resamples=4)) for _ in range(300)])
    assert naive.mean() == pytest.approx(0.45, abs=0.02)


def estimate_naively(gradients):
    """Delta^2 with the noise left in."""
    means = gradients[0].mean(axis=1)
    return ((means - means.mean(axis=0)) ** 2).sum(axis=1).mean()


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Of 200 recordings of known constants at 95 %, each interval misses at most 24 times (twelve in a hundred)."""
    rng = np.random.default_rng(1)
    truth = {"sigma": 1.0, "delta": 0.5, "lipschitz": 1.0, "angle": math.acos(1 / math.sqrt(1 + 0.25 + 1))}
    missed = dict.fromkeys(truth, 0)
    width = dict.fromkeys(truth, 0.0)
    for seed in range(200):
        result = estimate(recorded(rng, states=2), draws=200, seed=seed)
        for name, value in truth.items():
            interval = getattr(result, name)
            missed[name] += not interval.low <= value <= interval.high
            width[name] += (interval.high - interval.low) / 200
    assert max(missed.values()) <= 24
    # Wide enough to hold the truth is easy; they are also short.
    assert width["sigma"] < 0.4 and width["delta"] < 0.4 and width["lipschitz"] < 0.4 and width["angle"] < 0.4


def test_standard_error_is_that_of_a_mean():
    """One worker, 1000 + (0, 1, 2, 3): s^2 = 5/3 (not 5/4), so the ends of L are 1.96 sqrt(5/3 / 4) away."""
    interval = estimate(1000.0 + np.arange(4.0)[None, None, :, None], draws=20_000).lipschitz
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * math.sqrt(5 / 12), rel=0.03)


def test_many_noisy_states_are_not_taken_for_a_large_constant():
    """The largest of 150 noisy sigmas is well above 1, and the interval still reaches down to 1."""
    results = [estimate(recorded(np.random.default_rng(seed), states=30), draws=200) for seed in range(10)]
    assert min(result.sigma.value for result in results) > 1.05
    assert sum(result.sigma.low > 1.0 for result in results) <= 2


def test_more_resamples_give_shorter_intervals():
    """Sixteen times the resamples, about a quarter of the width."""
    rng = np.random.default_rng(3)
    few, many = (estimate(recorded(rng, resamples=r)).lipschitz for r in (10, 160))
    assert 0.15 < (many.high - many.low) / (few.high - few.low) < 0.4


def test_blocks_one_by_one_give_the_same():
    """An iterator of states, read once, is the array."""
    gradients = recorded(np.random.default_rng(4), states=3)
    truths, models = gradients.mean(axis=(1, 2)) + 0.01, np.ones((3, 50))
    assert estimate(iter(gradients), truths=iter(truths), models=iter(models)) == estimate(
        gradients, truths=truths, models=models
    )


def test_a_large_common_part_costs_no_digits():
    """Noise of 1e-6 around a gradient of 1e3: variances come from differences to the mean."""
    rng = np.random.default_rng(5)
    noise = rng.standard_normal((1, 3, 8, 20))
    assert estimate(1e3 + 1e-6 * noise).sigma.value == pytest.approx(1e-6 * estimate(noise).sigma.value, rel=1e-4)


def test_equal_seeds_give_equal_intervals():
    """The bootstrap is the only randomness."""
    gradients = recorded(np.random.default_rng(6))
    assert estimate(gradients, seed=3) == estimate(gradients, seed=3)
    assert estimate(gradients, seed=3) != estimate(gradients, seed=4)


def test_prints_and_becomes_json():
    """A person reads a few lines, a machine reads the fields."""
    result = estimate(SMALL, models=[[1.0]])
    assert "theta" in str(result) and "95% intervals" in str(result)
    assert json.loads(json.dumps(asdict(result)))["sigma"]["value"] == result.sigma.value


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: estimate(np.zeros((1, 3, 1, 4))), "at least 2 resamples"),
        (lambda: estimate(np.zeros((3, 4))), "3 axes"),
        (lambda: estimate([]), "at least one state"),
        (lambda: estimate(SMALL, truths=[[1.0, 2.0]]), "1 coordinates in truths"),
        (lambda: estimate(SMALL, truths=[[0.0]]), "truths that are not zero"),
        (lambda: estimate(SMALL, models=[]), "models for every state"),
        (lambda: estimate(SMALL, models=[[1.0], [2.0]]), "as many models as states"),
        (lambda: estimate([SMALL[0], np.ones((3, 2, 1))]), r"same workers at every state and got \[2, 3\]"),
        (lambda: estimate(SMALL, confidence=1.0), "confidence below 1"),
        (lambda: estimate(SMALL, draws=5), "draws >= 20"),
        (lambda: estimate(SMALL * math.nan), "finite"),
    ],
)
def test_errors_say_what_is_needed(call, sentence):
    """Wrong numbers get a sentence."""
    with pytest.raises(ValueError, match=sentence):
        call()
