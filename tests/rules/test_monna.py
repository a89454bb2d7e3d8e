"""MoNNA."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.rules import MoNNA


def test_by_hand() -> None:
    """Nearest to 4 of 1, 2, 3, 8, with one left out: 3 (1), 2 (2), 1 (3); 8 is 4 away."""
    result = MoNNA(f=1).aggregate(np.array([[8.0], [1.0], [2.0], [3.0]]), reference=np.array([4.0]))
    np.testing.assert_array_equal(result.update, [2.0])
    np.testing.assert_array_equal(result.scores, [4.0, 3.0, 2.0, 1.0])
    assert result.selected == (1, 2, 3)


def test_it_needs_a_reference() -> None:
    """Nothing is trusted unless the caller says so."""
    with pytest.raises(ValueError, match=r"MoNNA\(f=1\) needs a vector to trust and got none.*reference="):
        MoNNA(f=1)(np.eye(4))


def test_requirement() -> None:
    """2f + 1 rows suffice and 2f do not."""
    rows = np.arange(5.0)[:, None]
    np.testing.assert_array_equal(MoNNA(f=2)(rows, reference=rows[0]), [1.0])
    with pytest.raises(ValueError, match=r"MoNNA\(f=2\) needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        MoNNA(f=2)(rows[:4], reference=rows[0])


def test_ties_go_to_the_lower_index() -> None:
    """-1 and 1 are equally near to 0."""
    rows = np.array([[0.0], [1.0], [-1.0]])
    np.testing.assert_array_equal(MoNNA(f=1)(rows, reference=np.zeros(1)), [0.5])
    np.testing.assert_array_equal(MoNNA(f=1)(rows[[0, 2, 1]], reference=np.zeros(1)), [-0.5])


@pytest.mark.parametrize("far", FAR)
def test_agrees_with_the_oracle(far: float) -> None:
    """A node's own row, or a vector that is no row, as reference."""
    rows = attacked(far, outliers=3)
    for reference in (rows[0], rows[2] + np.float32(0.25)):
        expected = naive.monna(rows, 3, reference)
        np.testing.assert_allclose(MoNNA(f=3)(rows, reference=reference), expected, rtol=2e-7, atol=1e-7)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """A NaN row leaves, and f = 1 stays on the three rows left."""
    result = MoNNA(f=1).aggregate(np.array([[1.0], [np.nan], [2.0], [50.0]]), reference=np.zeros(1))
    np.testing.assert_array_equal(result.update, [1.5])
    assert [item.row for item in result.quarantined] == [1]
