"""Orders and medians in n-space, against numpy's."""

import numpy as np
import pytest

from mixtailor.kernels.selection import in_range, median, medoid, ranked


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


def _range(sums, *, exact):
    equal = np.zeros((len(sums), len(sums)), bool)
    return in_range(np.array([sums]), np.array([2.0]), np.array([exact]), 1e-280, equal), equal


def test_sums_in_range():
    """A sum of zero is sound only where it says that rows are equal, and then they are marked."""
    assert _range(np.array([[0.0, 1.0], [1.0, 0.0]]), exact=False)[0]
    assert not _range(np.array([[0.0, np.inf], [np.inf, 0.0]]), exact=True)[0]
    assert not _range(np.array([[0.0, 1e-290], [1e-290, 0.0]]), exact=True)[0]
    assert not _range(np.zeros((2, 2)), exact=False)[0]
    sound, equal = _range(np.zeros((2, 2)), exact=True)
    assert sound and equal.all()


def test_a_diagonal_that_is_no_number_is_a_row_that_is_not_finite():
    assert not _range(np.array([[np.nan]]), exact=True)[0]
