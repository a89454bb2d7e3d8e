"""The geometric median in n-space, against numpy's least squares."""

import numpy as np
import pytest

from mixtailor.kernels.medians import extrapolated, inverse_weights


def _by_numpy(tried, aims):
    steps = aims - tried
    shares = np.linalg.lstsq((steps[:-1] - steps[-1]).T, -steps[-1], rcond=1e-10)[0]
    guess = aims[-1] + shares @ (aims[:-1] - aims[-1])
    return guess if (guess >= 0.0).all() else aims[-1]


@pytest.mark.parametrize("passes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(20))
def test_steps_cancel_as_least_squares_has_it(seed, passes):
    random = np.random.default_rng(seed)
    tried = random.dirichlet(np.full(12, 50.0), size=passes)
    aims = tried * (1 + 1e-3 * random.normal(size=tried.shape))
    np.testing.assert_allclose(extrapolated(tried, aims), _by_numpy(tried, aims), rtol=1e-11)


def test_outside_the_simplex_the_last_aim_counts():
    """Steps of 1 and 0.9 point ten steps ahead, where the first weight is below zero."""
    tried = np.array([[0.5, 0.5], [0.4, 0.6]])
    aims = np.array([[0.4, 0.6], [0.31, 0.69]])
    np.testing.assert_array_equal(extrapolated(tried, aims), aims[-1])


@pytest.mark.parametrize("passes", [1, 3])
def test_steps_that_are_all_alike_say_nothing(passes):
    tried = np.tile([0.2, 0.3, 0.5], (passes, 1))
    aims = np.tile([0.25, 0.3, 0.45], (passes, 1))
    np.testing.assert_array_equal(extrapolated(tried, aims), aims[-1])


def test_weights_are_inverse_to_distances_within_bounds():
    weights = inverse_weights(np.array([1.0, 2.0, 1e-9, 1e150]), 1.0, 0.5)
    np.testing.assert_allclose(weights, np.array([1.0, 0.5, 2.0, 0.0]) / 3.5)
