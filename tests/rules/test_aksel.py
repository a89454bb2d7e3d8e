"""Aksel."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.rules import Aksel


def test_by_hand() -> None:
    """0, 4, 5, 7, 90: distances to the median 5 are 5, 1, 0, 2, 85, and 2 is their median: 4, 5 and 7 are averaged."""
    result = Aksel().aggregate(np.array([[0.0], [4.0], [5.0], [7.0], [90.0]]))
    np.testing.assert_allclose(result.update, [16 / 3])
    np.testing.assert_array_equal(result.scores, [5.0, 1.0, 0.0, 2.0, 85.0])
    assert result.selected == (1, 2, 3)


def test_even_n_takes_the_nearer_half() -> None:
    """0, 1, 4, 90: the median is 2.5, distances 2.5, 1.5, 1.5, 87.5, whose median 2 is above 1.5 alone."""
    assert Aksel().aggregate(np.array([[0.0], [1.0], [4.0], [90.0]])).selected == (1, 2)


def test_ties_are_all_averaged() -> None:
    """Equal distances all count, so that the order of the rows does not matter."""
    rows = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    np.testing.assert_array_equal(Aksel()(rows), [0.0])
    np.testing.assert_array_equal(Aksel()(rows[[0, 2, 1, 3]]), [0.0])


def test_one_row_and_two() -> None:
    """n >= 1."""
    np.testing.assert_array_equal(Aksel()(np.array([[3.0, 4.0]])), [3.0, 4.0])
    np.testing.assert_array_equal(Aksel()(np.array([[3.0], [4.0]])), [3.5])


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize(("n", "outliers"), [(3, 1), (8, 3), (21, 10)])
def test_agrees_with_the_oracle(far: float, n: int, outliers: int) -> None:
    """Up to half of the rows far away."""
    rows = attacked(far, n=n, outliers=outliers)
    np.testing.assert_allclose(Aksel()(rows), naive.aksel(rows), rtol=2e-7, atol=1e-7)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """Rows that are not finite leave, and the median is of the rows left."""
    result = Aksel().aggregate(np.array([[0.0], [np.nan], [5.0], [-np.inf], [6.0]]))
    np.testing.assert_array_equal(result.update, [5.5])
    assert [item.row for item in result.quarantined] == [1, 3]
