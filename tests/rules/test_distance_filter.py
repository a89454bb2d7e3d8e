"""The distance filter: what the laws and the oracle do not say."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

import mixtailor as mt


def test_by_hand() -> None:
    """Median squared distances are 4, 1, 1, 4 and 25: the median of these is 4, and 25 is above 1.5 times that."""
    result = mt.DistanceFilter().aggregate(np.array([[0.0], [1.0], [2.0], [3.0], [7.0]]))
    assert result.scores.tolist() == [4.0, 1.0, 1.0, 4.0, 25.0]
    assert result.update.tolist() == [1.5]
    assert mt.DistanceFilter(factor=7.0)(np.array([[0.0], [1.0], [2.0], [3.0], [7.0]])) == pytest.approx(2.6)


def test_where_nobody_is_far_all_are_averaged() -> None:
    rows = np.random.default_rng(0).normal(size=(12, 1000))
    np.testing.assert_allclose(mt.DistanceFilter()(rows), rows.mean(axis=0), atol=1e-12)


def test_two_updates_are_averaged() -> None:
    assert mt.DistanceFilter()(np.array([[0.0], [2.0]])).tolist() == [1.0]
    with pytest.raises(ValueError, match="at least 2"):
        mt.DistanceFilter()(np.array([[0.0]]))


@pytest.mark.parametrize("n", [5, 6, 11, 12])
@pytest.mark.parametrize("p", [1.0, 2.0, np.inf])
def test_the_bound_in_its_notes(n: int, p: float) -> None:
    """The most Byzantine updates that n allows, at many distances: never beyond (1 + sqrt(1.5)) honest diameters."""
    random = np.random.default_rng(n)
    f = (n - 1) // 2
    for trial in range(200):
        honest = random.normal(size=(n - f, 3))
        push = random.normal(size=3) * 10.0 ** random.uniform(-1, 3)
        near = honest.mean(axis=0) + push + random.normal(size=(f, 3)) * (trial % 3)
        result = mt.DistanceFilter(p=p)(np.concatenate([honest, near]))
        diameter = max(np.linalg.norm(a - b, p) for a in honest for b in honest)
        assert np.linalg.norm(result - honest.mean(axis=0), p) <= (1 + np.sqrt(1.5)) * diameter * (1 + 1e-9)


@pytest.mark.parametrize("factor", [0.5, 0.0, np.nan])
def test_a_factor_that_could_remove_everybody_is_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="factor"):
        mt.DistanceFilter(factor=factor)


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, np.inf])
@pytest.mark.parametrize(("n", "outliers"), [(3, 1), (8, 3), (21, 10)])
def test_agrees_with_the_oracle(far: float, p: float, n: int, outliers: int) -> None:
    """Up to half of the updates far away."""
    rows = attacked(far, n=n, outliers=outliers)
    expected = naive.distance_filter(rows, p=p)
    np.testing.assert_allclose(mt.DistanceFilter(p=p)(rows), expected, rtol=2e-7, atol=1e-7)
