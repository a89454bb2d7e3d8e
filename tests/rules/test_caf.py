"""CAF."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.rules import CAF
from mixtailor.rules._spectra import filtered, filtered_each, largest_spread


def test_by_hand() -> None:
    """0, 0, 0, 6 with f = 1: scores 2.25 and 20.25 leave the weights 8/9 and 0, where nothing spreads any more."""
    result = CAF(f=1).aggregate(np.array([[0.0], [0.0], [0.0], [6.0]]))
    assert result.update == pytest.approx([0.0])
    assert result.scores is not None
    np.testing.assert_allclose(result.scores, [8 / 9, 8 / 9, 8 / 9, 0.0])
    assert result.iterations == 1
    np.testing.assert_allclose(CAF(f=1)(np.array([[0.0], [0.0], [0.0], [0.06]])), [0.0], atol=1e-15)


def test_without_faults_it_is_the_mean() -> None:
    """With f = 0 no weight is ever lost."""
    rows = np.random.default_rng(1).normal(size=(5, 3))
    np.testing.assert_allclose(CAF(f=0)(rows), rows.mean(axis=0), rtol=1e-14)
    assert CAF(f=0).aggregate(rows).iterations == 0


def test_one_far_update_more_than_declared_does_not_bring_the_mean() -> None:
    """With f = 1 and two far updates, the weights that end the loop are the only ones without both."""
    rows = np.random.default_rng(2).normal(size=(12, 20))
    rows[3], rows[8] = 1e6, np.where(np.arange(20) % 2, 1e6, -1e6)
    honest = np.delete(rows, [3, 8], axis=0).mean(axis=0)
    assert np.linalg.norm(CAF(f=1)(rows) - honest) < 1.0


def test_requirement() -> None:
    """2f + 1 rows suffice and 2f do not."""
    rows = np.arange(10.0)[:, None] ** 2
    assert np.isfinite(CAF(f=2)(rows[:5])).all()
    with pytest.raises(ValueError, match=r"CAF\(f=2\) needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        CAF(f=2)(rows[:4])


@pytest.mark.parametrize("seed", range(12))
def test_agrees_with_the_oracle(seed: int) -> None:
    """The n-space spectrum gives what singular vectors in d-space give."""
    random = np.random.default_rng(seed)
    n, d = int(random.integers(3, 16)), int(random.integers(1, 60))
    f = int(random.integers(0, (n - 1) // 2 + 1))
    rows = random.normal(size=(n, d)) + random.normal(size=d)
    rows[:f] *= random.choice([1.0, 3.0, 30.0])
    np.testing.assert_allclose(CAF(f=f)(rows), naive.caf(rows, f), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("outliers", [1, 3])
@pytest.mark.parametrize("far", FAR)
def test_far_rows_cost_no_digits(far: float, outliers: int) -> None:
    """However far the outliers are, the honest part is right to 1e-6 of its spread."""
    rows = attacked(far, outliers=outliers)
    answer = CAF(f=outliers)(rows.astype(np.float64))
    assert np.linalg.norm(answer - naive.caf(rows, outliers)) < 1e-6


def test_outliers_at_all_scales_at_once() -> None:
    """Each step takes the farthest of the rows that still have weight."""
    rows = attacked(1e4, n=15, outliers=6).astype(np.float64)
    rows[3] *= 1e4
    rows[5] *= -1e8
    rows[7] *= 1e16
    rows[9] *= 1e34
    rows[11] = 1e300
    honest = np.delete(rows, [1, 3, 5, 7, 9, 11], axis=0)
    assert np.linalg.norm(CAF(f=6)(rows) - honest.mean(axis=0)) < 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_faulty_row_does_not_reach_the_answer(bad: float) -> None:
    """A row with one entry that is no number leaves, and is named."""
    rows = attacked(2.0).astype(np.float64)
    rows[4, 7] = bad
    result = CAF(f=2).aggregate(rows)
    assert np.isfinite(result.update).all()
    assert [fault.row for fault in result.quarantined] == [4]


def test_many_rows_take_the_other_way_to_the_spectrum() -> None:
    """Where an iteration finds the top of the spectrum, it finds what the full one has."""
    rows = np.random.default_rng(3).normal(size=(150, 40)) * np.linspace(1, 3, 40)
    products = rows @ rows.T
    weights = np.random.default_rng(4).uniform(size=150)
    spread = largest_spread(products, weights)
    value, direction, centre = naive.top_direction(rows, weights)
    assert spread.eigenvalue == pytest.approx(value, rel=1e-10)
    expected = np.abs((rows - centre.astype(float)) @ direction)
    np.testing.assert_allclose(spread.deviations / spread.deviations.max(), expected / expected.max(), atol=1e-7)


def test_many_rows_of_which_some_have_lost_their_weight() -> None:
    """The iteration cannot start at such a row, which has no direction, and CAF takes weight away until it is zero."""
    rows = np.random.default_rng(5).normal(size=(120, 7))
    weights = np.ones(120)
    weights[[0, 60, 119]] = 0.0
    spread = largest_spread(rows @ rows.T, weights)
    assert spread.eigenvalue == pytest.approx(naive.top_direction(rows, weights)[0], rel=1e-10)


def test_rows_that_are_all_equal() -> None:
    """Nothing spreads, and the result is the row."""
    np.testing.assert_allclose(CAF(f=2)(np.full((7, 3), 0.1)), np.full(3, 0.1), rtol=1e-15)


@pytest.mark.parametrize("n", [12, 120])
def test_filters_side_by_side_are_those_one_by_one(n: int) -> None:
    """The first stops at once, the others after different numbers of iterations."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(4, n, 40)) * np.exp(
        np.array([0.0, 0.0, 0.5, 2.0])[:, None, None] * random.normal(size=(4, n, 1))
    )
    rows[0] = 0.0
    views, f = rows @ rows.swapaxes(1, 2), n // 3
    found = filtered_each(views[:, None], f)
    assert len({one.iterations for one in found}) > 2
    for view, one in zip(views, found, strict=True):
        alone = filtered(view[None], f)
        np.testing.assert_allclose(one.weights, alone.weights, atol=1e-9)
        assert one.iterations == alone.iterations and one.spread == pytest.approx(alone.spread)
