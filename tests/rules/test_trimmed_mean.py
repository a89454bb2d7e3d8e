"""TrimmedMean."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.rules import TrimmedMean


def test_by_hand() -> None:
    """1, 2, 3, 7, 90 without 1 and 90: (2 + 3 + 7) / 3 = 4; the second column is trimmed by its own order."""
    rows = np.array([[90.0, 0.0], [1.0, 5.0], [7.0, 4.0], [2.0, -60.0], [3.0, 2.0]])
    np.testing.assert_array_equal(TrimmedMean(f=1)(rows), [4.0, 2.0])


def test_requirement() -> None:
    """2f + 1 rows leave one value, the median; 2f leave none."""
    rows = np.array([[5.0], [1.0], [3.0], [9.0], [4.0]])
    np.testing.assert_array_equal(TrimmedMean(f=2)(rows), [4.0])
    with pytest.raises(ValueError, match=r"TrimmedMean\(f=2\) needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        TrimmedMean(f=2)(rows[:4])


def test_without_faults_it_is_the_mean() -> None:
    """f = 0 trims nothing."""
    np.testing.assert_array_equal(TrimmedMean(f=0)(np.array([[1.0], [3.0]])), [2.0])


def test_one_huge_entry_costs_the_others_no_digit() -> None:
    """Libraries that subtract the extremes from the sum of all lose the rest to one entry of 1e12."""
    rows = np.full((5, 2), 0.1, np.float32)
    rows[2, 0] = 1e12
    np.testing.assert_array_equal(TrimmedMean(f=1)(rows), np.full(2, 0.1, np.float32))


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize(("n", "f"), [(5, 2), (8, 3), (33, 4)])
def test_agrees_with_the_oracle(far: float, n: int, f: int) -> None:
    """Far rows are trimmed before anything is summed."""
    rows = attacked(far, n=n, outliers=f)
    np.testing.assert_allclose(TrimmedMean(f)(rows), naive.trimmed_mean(rows, f), rtol=2e-7, atol=1e-7)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """A NaN row leaves; on the five rows left f = 2 still holds and stays."""
    rows = np.array([[1.0], [np.nan], [2.0], [3.0], [40.0], [50.0]])
    result = TrimmedMean(f=2).aggregate(rows)
    np.testing.assert_array_equal(result.update, [3.0])
    assert [item.row for item in result.quarantined] == [1]


def test_the_coefficient_is_reached() -> None:
    """f honest values at 1, all others at 0: with the f Byzantine ones below, what is trimmed above is honest."""
    n, f = 9, 2
    rows = np.zeros((n, 1))
    rows[:f] = 1.0
    honest = rows[: n - f]
    error = (TrimmedMean(f)(rows) - honest.mean(axis=0)) ** 2
    assert error[0] / honest.var() == pytest.approx(TrimmedMean(f).kappa(n, f, 1))
