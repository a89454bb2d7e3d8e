"""Comed."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.rules import Comed


def test_by_hand() -> None:
    """The middle of 1, 2, 9 is 2; n even gives the mean of the two in the middle, not the lower one as torch does."""
    np.testing.assert_array_equal(Comed()(np.array([[9.0, 5.0], [1.0, 7.0], [2.0, 6.0]])), [2.0, 6.0])
    np.testing.assert_array_equal(Comed()(np.array([[1.0], [9.0], [2.0], [4.0]])), [3.0])


def test_one_row_and_two() -> None:
    """n >= 1: one row is its own median, and two meet in the middle without overflow."""
    largest = np.finfo(np.float32).max
    np.testing.assert_array_equal(Comed()(np.array([[4.0, -1.0]])), [4.0, -1.0])
    np.testing.assert_array_equal(Comed()(np.full((2, 3), largest, np.float32)), np.full(3, largest))


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("n", [5, 10])
def test_agrees_with_the_oracle(far: float, n: int) -> None:
    """Far rows move nothing but ranks."""
    rows = attacked(far, n=n, outliers=(n - 1) // 2)
    np.testing.assert_allclose(Comed()(rows), naive.comed(rows), rtol=1e-7)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """Fewer than half may be anything: the median is of the rows that are left."""
    result = Comed().aggregate(np.array([[1.0], [np.nan], [5.0], [np.inf], [3.0]]))
    np.testing.assert_array_equal(result.update, [3.0])
    assert [item.row for item in result.quarantined] == [1, 3]


@pytest.mark.parametrize(("n", "f", "kappa"), [(3, 1, 1.0), (5, 2, 2.0), (11, 2, 1.25), (10, 0, 2 / 3)])
def test_coefficient(n: int, f: int, kappa: float) -> None:
    """(n - f - a) / a with a = floor(n / 2) + 1 - f, none where the median may be Byzantine."""
    assert Comed().kappa(n, f, 7) == pytest.approx(kappa)
    assert Comed().kappa(4, 3, 7) is None
