"""The lambdas that break Krum and comed."""

import math

import numpy as np
import pytest

from mixtailor.theory import comed_lambda_bound, krum_lambda_bound, lambda_intersection


def krum_takes_the_attack(honest, f, lam, direction, reference, p, power):
    """Whether Krum picks one of f equal rows at reference - lam direction; ties go to the attack."""
    rows = np.concatenate([np.tile(reference - lam * direction, (f, 1)), honest])
    apart = np.array([np.linalg.norm(rows - row, p, axis=1) for row in rows]) ** power
    np.fill_diagonal(apart, np.inf)
    return np.sort(apart, axis=1)[:, : len(rows) - f - 2].sum(axis=1).argmin() < f


def test_by_hand():
    """Rows 1, 2, 3 and one Byzantine row, so n = 4: one neighbour each, least squared distance 1, over n - 2f - 1 = 1.

    The farthest row is 3 from the origin and the direction is the sign 1: 1 + 3 = 4.
    """
    assert krum_lambda_bound([[1.0], [2.0], [3.0]], 1) == 4.0


def test_by_hand_in_the_plane():
    """Rows (3, 4), (3, 4), (3, 7), (6, 4) and one Byzantine row, n = 5: two neighbours each, over n - 2f - 1 = 2.

    The least sum is 0 + 9 of a double row. The farthest from (0, 0) is (3, 7), sqrt(58). Signs are (1, 1).
    """
    rows = [[3.0, 4.0], [3.0, 4.0], [3.0, 7.0], [6.0, 4.0]]
    assert krum_lambda_bound(rows, 1) == pytest.approx((math.sqrt(9 / 2) + math.sqrt(58)) / math.sqrt(2))
    assert krum_lambda_bound(rows, 1, power=1) == pytest.approx((3 / 2 + math.sqrt(58)) / math.sqrt(2))
    # From (3, 4) the farthest is 3 away; along (5, 0) in the maximum norm.
    assert krum_lambda_bound(rows, 1, direction=[5.0, 0.0], reference=[3.0, 4.0], p=math.inf) == pytest.approx(
        (math.sqrt(9 / 2) + 3) / 5
    )


@pytest.mark.parametrize(("p", "power"), [(2.0, 2), (2.0, 1), (1.0, 2), (math.inf, 2)])
def test_no_attack_succeeds_beyond_the_bound(p, power):
    """Climbing over the honest rows for the largest lambda, as a share of the bound, reaches most of it, never more."""
    best = 0.0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        honest, f, size, share = rng.standard_normal((5, 2)), 2, 1.0, 0.0
        direction, reference = np.array([1.0, 0.5]), np.array([0.3, -0.2])
        for _ in range(150):
            tried = honest + size * rng.standard_normal(honest.shape) * (rng.random(len(honest)) < 0.4)[:, None]
            bound = krum_lambda_bound(tried, f, direction=direction, reference=reference, p=p, power=power)
            for part in np.linspace(1.5, share, 60, endpoint=False):
                if krum_takes_the_attack(tried, f, part * bound, direction, reference, p, power):
                    honest, share = tried, part
                    break
            else:
                size = max(0.97 * size, 1e-3)
        best = max(best, share)
    assert 0.75 < best <= 1.0 + 1e-9


def test_signs_scale_with_the_dimension():
    """Copies of the same coordinate: lengths grow by sqrt(d), and so does the direction's, so lambda stays."""
    rows = np.array([[1.0], [2.0], [4.0], [3.0]])
    assert krum_lambda_bound(np.tile(rows, 25), 1) == pytest.approx(krum_lambda_bound(rows, 1))


def test_comed_by_hand():
    """sqrt(12 - 2 - 1) = 3: sigma = 3 and |g|_inf = 0.5 give x = 2 and |1 - 2| = 1; sigma = 0 gives 1."""
    assert comed_lambda_bound(12, 2, sigma=3.0, largest_entry=0.5) == 1.0
    assert comed_lambda_bound(12, 2, sigma=0.0, largest_entry=0.5) == 1.0
    assert comed_lambda_bound(12, 2, sigma=1.5, largest_entry=0.5) == 0.0


@pytest.mark.parametrize(
    ("x", "empty", "stated"),
    [
        (0.5, True, False),  # small noise: empty, and the paper's inequality does not say so
        (0.95, False, True),  # within 1/sqrt(d) of 1: the sets meet, and the paper's inequality says empty
        (1.0, False, True),
        (1.05, False, True),
        (1.2, True, True),
    ],
)
def test_emptiness_and_the_papers_inequality(x, empty, stated):
    """d = 100, so 1/sqrt(d) = 0.1: empty exactly outside [0.9, 1.1], stated from 0.9 on."""
    result = lambda_intersection(12, 2, 100, sigma=1.5 * x, largest_entry=0.5)
    assert result.x == pytest.approx(x)
    assert (result.empty, result.stated) == (empty, stated)
    assert "sign of 1/sqrt(d) wrong" in result.note
    # By definition: does any lambda lie at or above the one and at or below the other?
    assert result.empty == (not any(result.lower <= lam <= result.upper for lam in np.linspace(0, 2, 20001)))


def test_sets_that_touch_are_not_disjoint():
    """d = 4 and x = 1/2: both bounds are 1/2, and lambda = 1/2 lies in both sets."""
    assert not lambda_intersection(12, 2, 4, sigma=0.75, largest_entry=0.5).empty


def test_krums_bound_in_full_takes_the_place_of_its_order():
    """x = 2 leaves comed at 1; with Krum reaching 4 instead of 0.1 the sets meet."""
    result = lambda_intersection(12, 2, 100, sigma=3.0, largest_entry=0.5, upper=4.0)
    assert not result.empty and result.stated and "[1, 4] may break both" in str(result)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: krum_lambda_bound([[1.0], [2.0]], 1), "needs at least 4 rows"),
        (lambda: krum_lambda_bound([[1.0], [2.0], [3.0]], 0), "f >= 1"),
        (lambda: krum_lambda_bound([[1.0], [2.0], [3.0]], 1, direction=[0.0]), "direction that is not zero"),
        (lambda: krum_lambda_bound([[1.0], [2.0], [3.0]], 1, reference=[0.0, 0.0]), "1 coordinates"),
        (lambda: krum_lambda_bound([[1.0], [2.0], [3.0]], 1, power=3), "power = 2"),
        (lambda: krum_lambda_bound([[1.0], [math.inf], [3.0]], 1), "1 of 3 are not"),
        (lambda: krum_lambda_bound([1.0, 2.0, 3.0], 1), "2 axes"),
        (lambda: comed_lambda_bound(3, 2, sigma=1.0, largest_entry=1.0), "at least 4 rows"),
        (lambda: comed_lambda_bound(12, 2, sigma=1.0, largest_entry=0.0), "largest_entry > 0"),
    ],
)
def test_errors_say_what_is_needed(call, sentence):
    """Wrong numbers get a sentence."""
    with pytest.raises(ValueError, match=sentence):
        call()
