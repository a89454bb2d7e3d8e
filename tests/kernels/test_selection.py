"""Orders and medians in n-space, against numpy's."""

import numpy as np
import pytest

from mixtailor.kernels.selection import krum_picks, median, medoid, ranked


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13, 100])
@pytest.mark.parametrize("seed", range(5))
def test_places_are_those_of_a_stable_sort(seed, n):
    """With many ties: of equal values the first comes first, whatever way the heap takes."""
    values = np.random.default_rng(seed).integers(0, max(2, n // 3), size=n).astype(np.float64)
    expected = np.argsort(values, kind="stable")
    for count in {1, n // 2 + 1, n}:
        np.testing.assert_array_equal(ranked(values, count), expected[:count])


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_median(n):
    values = np.random.default_rng(n).normal(size=n)
    assert median(values) == pytest.approx(np.median(values), rel=1e-15)


def test_a_median_of_the_largest_numbers_does_not_overflow():
    largest = np.finfo(np.float64).max
    assert median(np.array([largest, largest])) == largest


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_medoid(n):
    rows = np.random.default_rng(n).normal(size=(n, 5))
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    assert medoid(distances) == np.partition(distances, n // 2, axis=1)[:, n // 2].argmin()


def test_equal_scores_are_decided_by_further_neighbours_one_after_another():
    """Rows 0 and 1 are each other's nearest. A sum over further rows would lose 2 and 3 beside the row at 1e30."""
    points = np.array([0.0, 1.0, 4.0, 1e30])
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
        rows = points[order]
        assert rows[krum_picks(np.abs(rows[:, None] - rows), 1, 2.0, 1)[0]] == 1.0
