"""Omniscient."""

import numpy as np
import pytest

from mixtailor.preaggregation import NNM
from mixtailor.rules import Omniscient


def test_by_hand() -> None:
    """The mean of the rows it is told, wherever the others are."""
    result = Omniscient().aggregate(np.array([[1.0], [1e300], [3.0], [8.0]]), honest=[0, 2, 3])
    np.testing.assert_array_equal(result.update, [4.0])
    assert result.selected == (0, 2, 3)


def test_it_needs_to_be_told() -> None:
    """It guesses nothing."""
    with pytest.raises(ValueError, match=r"Omniscient needs the indices of the honest updates.*honest="):
        Omniscient()(np.eye(3))
    with pytest.raises(ValueError, match="at least one honest row"):
        Omniscient()(np.eye(3), honest=[])


def test_rows_that_lie_are_not_even_read() -> None:
    """All but one row may be NaN."""
    rows = np.full((5, 2), np.nan)
    rows[3] = [1.0, 2.0]
    np.testing.assert_array_equal(Omniscient()(rows, honest=[3]), [1.0, 2.0])


def test_an_honest_row_that_is_not_finite_leaves() -> None:
    """Places are of the rows as received, also after a row has left."""
    result = Omniscient().aggregate(np.array([[1.0], [np.nan], [5.0], [77.0]]), honest=[0, 1, 2])
    np.testing.assert_array_equal(result.update, [3.0])
    assert [item.row for item in result.quarantined] == [1]
    with pytest.raises(ValueError, match="at least one honest row"):
        Omniscient()(np.array([[1.0], [np.nan]]), honest=[1])


def test_behind_a_preaggregation_it_averages_received_rows() -> None:
    """The yardstick does not bend: mixed, these rows would be 1, 1, 1, 4, with a mean of 1.75."""
    rows = np.array([[0.0], [1.0], [2.0], [9.0], [90.0]])
    np.testing.assert_array_equal((NNM(f=2) >> Omniscient())(rows, honest=[0, 1, 2, 3]), [3.0])
