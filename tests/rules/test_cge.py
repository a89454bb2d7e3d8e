"""CGE."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.rules import CGE


def test_by_hand() -> None:
    """Lengths 5, 1, 10, 2: the longest leaves, and the mean of the others is (3 + 0 + 0, 4 + 1 - 2) / 3 = (1, 1)."""
    result = CGE(f=1).aggregate(np.array([[3.0, 4.0], [0.0, 1.0], [6.0, 8.0], [0.0, -2.0]]))
    np.testing.assert_allclose(result.update, [1.0, 1.0])
    np.testing.assert_array_equal(result.scores, [5.0, 1.0, 10.0, 2.0])
    assert result.selected == (0, 1, 3)


def test_requirement() -> None:
    """2f + 1 rows suffice and 2f do not."""
    rows = np.arange(5.0)[:, None]
    np.testing.assert_array_equal(CGE(f=2)(rows), [1.0])
    with pytest.raises(ValueError, match=r"CGE\(f=2\) needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        CGE(f=2)(rows[:4])


def test_ties_go_to_the_lower_index() -> None:
    """Of two rows of one length, the first stays."""
    assert CGE(f=1).aggregate(np.array([[2.0], [1.0], [-2.0]])).selected == (0, 1)


@pytest.mark.parametrize("far", FAR)
def test_agrees_with_the_oracle(far: float) -> None:
    """Squares of 1e38 are not needed to know that it is long."""
    rows = attacked(far, outliers=3)
    np.testing.assert_allclose(CGE(f=3)(rows), naive.cge(rows, 3), rtol=2e-7, atol=1e-7)


def test_lengths_whose_squares_over_and_underflow() -> None:
    """float64 rows at 1e130 and 1e-130 are ordered by length; one beyond 1e140 is a fault."""
    rows = np.array([[3e130, 4e130], [1e130, 0.0], [2e-130, 0.0], [0.0, 1e-130], [1e300, 0.0]])
    assert CGE(f=2).aggregate(rows).selected == (1, 2, 3)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """A NaN row leaves, and f = 1 stays on the three rows left."""
    result = CGE(f=1).aggregate(np.array([[1.0], [np.nan], [2.0], [50.0]]))
    np.testing.assert_array_equal(result.update, [1.5])
    assert [item.row for item in result.quarantined] == [1]


def test_the_law_it_lacks_fails() -> None:
    """Moved by -2, another row is the longest."""
    rows = np.array([[0.0], [1.0], [2.5]])
    assert CGE(f=1)(rows - 2.0) != CGE(f=1)(rows) - 2.0
    assert set(CGE(f=1).missing_laws()) == {"translation"}
