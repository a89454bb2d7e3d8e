"""Mean."""

import naive
import numpy as np
import pytest

from mixtailor import FaultError
from mixtailor.rules import Mean


def test_by_hand() -> None:
    """(1 + 2 + 6) / 3 = 3, each row with a third of the weight."""
    result = Mean().aggregate(np.array([[1.0, 0.0], [2.0, 0.0], [6.0, 3.0]]))
    np.testing.assert_array_equal(result.update, [3.0, 1.0])
    np.testing.assert_allclose(result.weights, [1 / 3, 1 / 3, 1 / 3])


def test_one_row_is_its_mean() -> None:
    """n = 1 is allowed, and the row comes back bit for bit."""
    row = np.array([[0.1, -3e-45, 7.0]], np.float32)
    np.testing.assert_array_equal(Mean()(row), row[0])


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_oracle(seed: int) -> None:
    """Sums are float64, whatever the rows are."""
    rows = np.random.default_rng(seed).normal(size=(3 + seed, 501)).astype(np.float32)
    np.testing.assert_allclose(Mean()(rows), naive.mean(rows), rtol=2e-7, atol=1e-9)


def test_withstands_nothing() -> None:
    """One row that is not finite is one more than the mean tolerates, and is named."""
    with pytest.raises(FaultError, match="row 1") as refusal:
        Mean()(np.array([[1.0], [np.nan], [2.0]]))
    assert refusal.value.rows == (1,)
