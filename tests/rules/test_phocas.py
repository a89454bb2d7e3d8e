"""Phocas."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.rules import Meamed, Phocas
from mixtailor.testing import climb


def test_by_hand() -> None:
    """1, 2, 3, 7, 90: the trimmed mean is 4, the four nearest to it are 1, 2, 3, 7, whose mean is 3.25."""
    np.testing.assert_array_equal(Phocas(f=1)(np.array([[7.0], [90.0], [1.0], [3.0], [2.0]])), [3.25])


def test_the_centre_is_not_the_median() -> None:
    """-5, 0, 1, 8, 8: -5 is nearer than 8 to the median 1 and farther than 8 from the trimmed mean 3."""
    skewed = np.array([[-5.0], [0.0], [1.0], [8.0], [8.0]])
    np.testing.assert_array_equal(Phocas(f=1)(skewed), [4.25])
    np.testing.assert_array_equal(Meamed(f=1)(skewed), [1.0])


def test_requirement() -> None:
    """2f + 1 rows suffice and 2f do not."""
    rows = np.arange(5.0)[:, None]
    assert np.isfinite(Phocas(f=2)(rows)).all()
    with pytest.raises(ValueError, match=r"Phocas\(f=2\) needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        Phocas(f=2)(rows[:4])


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize(("n", "f"), [(3, 1), (8, 3), (33, 4)])
def test_agrees_with_the_oracle(far: float, n: int, f: int) -> None:
    """Far values are outside every window."""
    rows = attacked(far, n=n, outliers=f)
    np.testing.assert_allclose(Phocas(f)(rows), naive.phocas(rows, f), rtol=2e-7, atol=1e-7)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """An infinite row leaves, and f = 1 stays on the three rows left."""
    result = Phocas(f=1).aggregate(np.array([[0.0], [1.0], [-np.inf], [9.0]]))
    np.testing.assert_array_equal(result.update, [0.5])
    assert [item.row for item in result.quarantined] == [2]


@pytest.mark.parametrize(("n", "f"), [(3, 1), (5, 2), (9, 2)])
def test_coefficient(n: int, f: int) -> None:
    """A search for the worst rows stays below the coefficient, and reaches half of it: it is not idle."""
    kappa = Phocas(f).kappa(n, f, 1)
    assert kappa is not None
    assert 0.5 * kappa <= climb(Phocas(f), n, f, d=1, steps=300).ratio <= kappa * (1 + 1e-9)
