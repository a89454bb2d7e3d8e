"""NNM."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked, seen

from mixtailor.preaggregation import NNM
from mixtailor.rules import Comed, GeometricMedian, Krum, Mean


def test_by_hand() -> None:
    """1, 2, 4, 90 with f = 1: means of three nearest are 7/3, 7/3, 7/3 and (90 + 4 + 2) / 3."""
    mixed = NNM(f=1).prepare(seen(np.array([[1.0], [2.0], [4.0], [90.0]]))).matrix()
    np.testing.assert_allclose(mixed, [[7 / 3], [7 / 3], [7 / 3], [32.0]])


def test_ties_go_to_the_lower_index() -> None:
    """0 has -1 and 1 equally near, and takes the first of them."""
    mixed = NNM(f=1).prepare(seen(np.array([[-1.0], [0.0], [1.0]]))).matrix()
    np.testing.assert_allclose(mixed, [[-0.5], [-0.5], [0.5]])


def test_requirement() -> None:
    """f + 1 rows suffice and f do not; the rule behind needs what it needs by itself."""
    assert NNM(f=2).prepare(seen(np.eye(3))).n == 3
    with pytest.raises(ValueError, match=r"NNM\(f=2\) needs at least 3 rows"):
        NNM(f=2).prepare(seen(np.eye(2)))
    assert (NNM(f=2) >> Krum(f=2)).min_rows() == 7


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("p", [1.0, 2.0, np.inf])
def test_agrees_with_the_oracle(seed: int, p: float) -> None:
    """Rows, and the distances between them, which come from n-space."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(int(random.integers(2, 20)), 30))
    f = int(random.integers(0, (len(rows) - 1) // 2 + 1))
    view = NNM(f=f, p=p).prepare(seen(rows))
    expected = naive.nnm(rows, f, p)
    np.testing.assert_allclose(view.matrix(), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(view.distances(), naive.distances(expected).astype(float), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("far", FAR)
def test_far_rows_cost_no_digits(far: float) -> None:
    """Honest rows mix with honest rows only, and the rules behind see them to the last digit."""
    rows = attacked(far, outliers=3).astype(np.float64)
    mixed = naive.nnm(rows, 3)
    assert np.linalg.norm((NNM(f=3) >> Krum(f=3))(rows) - naive.krum(mixed, 3)) < 1e-6
    assert np.linalg.norm((NNM(f=3) >> Comed())(rows) - naive.comed(mixed)) < 1e-6
    median = (NNM(f=3) >> GeometricMedian(tolerance=1e-9))(rows)
    assert np.linalg.norm(median - naive.geometric_median(mixed)) < 1e-6


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """It leaves before it is mixed in."""
    rows = attacked(2.0, dtype=np.float64)
    rows[4, 7] = np.nan
    result = (NNM(f=2) >> Comed()).aggregate(rows)
    assert np.isfinite(result.update).all()
    assert [fault.row for fault in result.quarantined] == [4]


def test_coefficient() -> None:
    """8 f / (n - f) (1 + kappa), for the Euclidean norm alone."""
    inner = Comed().kappa(12, 2, 5)
    assert inner is not None
    assert (NNM(f=2) >> Comed()).kappa(12, 2, 5) == pytest.approx(1.6 * (1 + inner))
    assert (NNM(f=2, p=3) >> Comed()).kappa(12, 2, 5) is None
    assert (NNM(f=2) >> Mean()).kappa(12, 2, 5) is None
