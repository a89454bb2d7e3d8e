"""Clipping."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked, seen

from mixtailor.preaggregation import Clipping
from mixtailor.rules import Comed, GeometricMedian, Krum, Mean
from mixtailor.rules._clip import clip_factors


def test_by_hand() -> None:
    """A row of length 5 at radius 2.5 is halved, one of length 1 stays, and zero stays zero."""
    rows = np.array([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(Clipping(2.5).prepare(seen(rows)).matrix(), [[1.5, 2.0], [0.0, 1.0], [0.0, 0.0]])


def test_factors() -> None:
    """A length of exactly the radius is not touched, and an enormous one does not become zero."""
    np.testing.assert_array_equal(clip_factors(np.array([0.0, 1.0, 2.0, 1e300]), 1.0), [1.0, 1.0, 0.5, 1e-300])


def test_n_and_f_stay() -> None:
    """The rule behind needs what it needs by itself."""
    assert Clipping(1.0).after(12, 2) == (12, 2)
    assert (Clipping(1.0) >> Krum(f=2)).min_rows() == 7
    (Clipping(1.0) >> Krum(f=2))(np.eye(7))
    with pytest.raises(ValueError, match="at least 7 rows"):
        (Clipping(1.0) >> Krum(f=2))(np.eye(6))


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_the_oracle(seed: int) -> None:
    """Rows, and the distances between them, which come from n-space."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(int(random.integers(2, 20)), 30)) + random.choice([0.0, 3.0])
    radius = float(np.median(np.linalg.norm(rows, axis=1)))
    view = Clipping(radius).prepare(seen(rows))
    expected = naive.clipping(rows, radius)
    np.testing.assert_allclose(view.matrix(), expected, rtol=1e-12)
    np.testing.assert_allclose(view.distances(), naive.distances(expected).astype(float), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("far", FAR)
def test_far_rows_cost_no_digits(far: float) -> None:
    """A far row comes out at the radius, in the result and in the geometry."""
    rows = attacked(far, outliers=3).astype(np.float64)
    clipped = naive.clipping(rows, 6.0)
    for rule, twin in (
        (Mean(), naive.mean),
        (Comed(), naive.comed),
        (GeometricMedian(tolerance=1e-9), naive.geometric_median),
    ):
        assert np.linalg.norm((Clipping(6.0) >> rule)(rows) - twin(clipped)) < 1e-6
    between = Clipping(6.0).prepare(seen(rows)).distances()
    np.testing.assert_allclose(between, naive.distances(clipped).astype(float), atol=1e-6)


def test_a_row_at_the_end_of_the_range() -> None:
    """It is as long as the radius, in the rows and in the geometry alike."""
    rows = attacked(1e139, outliers=1, dtype=np.float64)
    view, expected = Clipping(6.0).prepare(seen(rows)), naive.clipping(rows, 6.0)
    np.testing.assert_allclose(view.matrix(), expected, rtol=1e-12)
    np.testing.assert_allclose(view.distances(), naive.distances(expected).astype(float), rtol=1e-6, atol=1e-6)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """Its length is no number: it leaves."""
    rows = attacked(2.0, dtype=np.float64)
    rows[4, 7] = np.inf
    result = (Clipping(5.0) >> Comed()).aggregate(rows)
    assert np.isfinite(result.update).all()
    assert [fault.row for fault in result.quarantined] == [4]


@pytest.mark.parametrize("radius", [0.0, -1.0, float("inf"), float("nan")])
def test_refuses_wrong_radii(radius: float) -> None:
    """At construction."""
    with pytest.raises(ValueError, match="Clipping needs radius > 0"):
        Clipping(radius)
