"""Meamed."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.rules import Meamed
from mixtailor.testing import climb


def test_by_hand() -> None:
    """1, 2, 3, 6, 90: the four nearest to 3 are 1, 2, 3, 6, whose mean is 3."""
    np.testing.assert_array_equal(Meamed(f=1)(np.array([[90.0], [1.0], [6.0], [2.0], [3.0]])), [3.0])


def test_values_may_come_from_different_rows() -> None:
    """Each column keeps its own rows: row 0 is out in the first, row 1 in the second."""
    rows = np.array([[50.0, 0.0], [0.0, 50.0], [1.0, 1.0]])
    np.testing.assert_array_equal(Meamed(f=1)(rows), [0.5, 0.5])


def test_ties_go_to_the_lower_value() -> None:
    """0, 5, 10 with two kept: 0 and 10 are equally near to 5, and the smaller stays, in any order of the rows."""
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        np.testing.assert_array_equal(Meamed(f=1)(np.array([[0.0], [5.0], [10.0]])[order]), [2.5])


def test_requirement() -> None:
    """2f + 1 rows suffice and 2f do not."""
    rows = np.arange(5.0)[:, None]
    assert np.isfinite(Meamed(f=2)(rows)).all()
    with pytest.raises(ValueError, match=r"Meamed\(f=2\) needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        Meamed(f=2)(rows[:4])


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize(("n", "f"), [(3, 1), (8, 3), (33, 4)])
def test_agrees_with_the_oracle(far: float, n: int, f: int) -> None:
    """Far values are outside every window."""
    rows = attacked(far, n=n, outliers=f)
    np.testing.assert_allclose(Meamed(f)(rows), naive.meamed(rows, f), rtol=2e-7, atol=1e-7)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """Two NaN rows are what f = 2 allows; f falls to 1 on the four rows left."""
    result = Meamed(f=2).aggregate(np.array([[0.0], [1.0], [np.nan], [2.0], [np.nan], [9.0]]))
    np.testing.assert_array_equal(result.update, [1.0])
    assert [item.row for item in result.quarantined] == [2, 4]


@pytest.mark.parametrize(("n", "f"), [(3, 1), (5, 2), (9, 2)])
def test_coefficient(n: int, f: int) -> None:
    """A search for the worst rows stays below the coefficient, and reaches half of it: it is not idle."""
    kappa = Meamed(f).kappa(n, f, 1)
    assert kappa is not None
    assert 0.5 * kappa <= climb(Meamed(f), n, f, d=1, steps=300).ratio <= kappa * (1 + 1e-9)
