"""What campaigns found, each as the smallest input that shows it."""

import warnings

import numpy as np
import pytest
import torch

import mixtailor as mt
from mixtailor.intake.device import on_device
from mixtailor.testing.laws import FixedKey

LARGEST = np.finfo(np.float64).max
LEAST = np.finfo(np.float64).smallest_subnormal


@pytest.mark.parametrize(
    "rule", [mt.Krum(1), mt.MultiKrum(1), mt.Medoid(), mt.ARC(1) >> mt.Krum(1, p=16), mt.DnC(1), mt.SMEA(1)], ids=repr
)
@pytest.mark.parametrize("far", [LARGEST, -LARGEST / 2, LEAST])
def test_a_row_at_the_edge_of_float64_raises_no_warning(rule: mt.Rule, far: float) -> None:
    """Where warnings are errors, it would let one worker stop the server."""
    rows = np.random.default_rng(0).normal(size=(8, 3))
    rows[0] = far
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(rule(rows)).all()


@pytest.mark.parametrize("chain", [mt.Medoid(), mt.Resampling(repeats=1) >> mt.Medoid()], ids=repr)
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_medoid_is_not_the_far_row(chain: mt.Rule, share: float) -> None:
    """Sums of distances of 1e308 overflow to minus infinity, which is the least of all scores."""
    rows = np.zeros((5, 46))
    rows[:2] = share * LARGEST
    assert np.array_equal(chain(rows), np.zeros(46))


@pytest.mark.parametrize("rule", [mt.Krum(2), mt.Krum(2, p=np.inf), mt.MultiKrum(2), mt.Bulyan(2), mt.MDA(2)], ids=repr)
@pytest.mark.parametrize("size", [1e75, 1e-75])
def test_rows_near_the_ends_of_the_range_are_told_apart(rule: mt.Rule, size: float) -> None:
    """With all scores equal, the row of the lowest index would win: the attacker's."""
    rows = size * np.random.default_rng(1).normal(size=(13, 2))
    rows[0], rows[10] = 1e60 * size, -1e60 * size
    assert np.abs(rule(rows)).max() < 10 * size


@pytest.mark.parametrize("p", [1.0, 3.0, 16.0])
def test_a_geometric_median_of_the_least_numbers(p: float) -> None:
    """A millionth of the least number is zero, and its inverse no weight."""
    rows = LEAST * np.array([[-35.0, 22.0], [40.0, -41.0], [0.0, 0.0], [1.0, 2.0]])
    assert np.abs(mt.GeometricMedian(p=p)(rows)).max() <= 41 * LEAST


@pytest.mark.parametrize("rule", [mt.SMEA(2), mt.DnC(2), mt.CAF(2), mt.GeometricMedian()], ids=repr)
def test_spectra_of_the_least_numbers_beside_a_large_one(rule: mt.Rule) -> None:
    """One over a distance of 1e-323 is infinite, and the eigenvalues of such a matrix stopped the server."""
    rows = LEAST * np.random.default_rng(2).integers(-50, 51, size=(7, 4))
    rows[3], rows[5] = 7e14, -5e31
    assert np.isfinite(rule(rows)).all()


def test_the_least_spread_of_the_largest_rows() -> None:
    """Rows as far apart as can be leave no candidates."""
    signs = np.random.default_rng(3).choice([-1.0, 1.0], size=(9, 2))
    assert np.isfinite(mt.SMEA(2)(1e139 * signs)).all()


def test_trust_in_the_largest_reference() -> None:
    """Its product with a row of length one overflows."""
    rows = np.full((3, 7), 1e30)
    rows[1] = 0.7 * LARGEST
    assert np.isfinite(mt.FLTrust()(rows, reference=rows[1])).all()


def test_trust_in_a_row_too_short_to_be_measured() -> None:
    """The inverse of its length is infinite."""
    rows = np.full((5, 3), 1e30)
    rows[1] = LEAST * np.array([-6.0, 1.0, 28.0])
    assert np.isfinite(mt.FLTrust()(rows, reference=rows[1])).all()


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("near", [LEAST, 6.28262969e-235, 1e-160])
@pytest.mark.parametrize("far", [-5.23534783e173, 0.0, LARGEST])
def test_a_row_whose_squared_distance_vanishes_does_not_tie_with_equal_rows(p: float, near: float, far: float) -> None:
    """All scores were zero, and the row of the lowest index won: the attacker's. A far row changes nothing."""
    rows = np.zeros((9, 2))
    rows[0], rows[3] = near, far
    for rule in (mt.Krum(2, p=p), mt.MultiKrum(2, p=p), mt.Krum(2, p=p, power=1)):
        assert np.abs(rule(rows)).max() <= 1e-140, rule  # below that, squares vanish, and rows tie


@pytest.mark.parametrize("size", [1e-138, 1e-100, 1e100, 1e137])
def test_scores_of_the_least_and_largest_distances_are_compared_as_exactly_as_others(size: float) -> None:
    """The order is that of the same rows; sizes are powers of two."""
    unit = 2.0 ** np.floor(np.log2(size))
    rows = np.random.default_rng(4).integers(-40, 41, size=(11, 3)).astype(np.float64)
    expected = mt.MultiKrum(3, m=4).aggregate(rows)
    assert mt.MultiKrum(3, m=4).aggregate(unit * rows).selected == expected.selected


def test_a_far_row_leaves_the_scores_of_others_as_they_are() -> None:
    """They are reported, whatever else was received."""
    rows = np.random.default_rng(5).normal(size=(9, 3))
    usual = mt.Krum(2).aggregate(np.vstack([rows, [[1e9, 0.0, 0.0]]])).scores
    found = mt.Krum(2).aggregate(np.vstack([rows, [[1e130, 0.0, 0.0]]])).scores
    assert usual is not None and found is not None
    assert np.array_equal(found[:9], usual[:9])
    assert found[9] > 1e259


FRONTS = [None, mt.Resampling(repeats=2), mt.Bucketing(size=2)]


@pytest.mark.parametrize("front", FRONTS, ids=repr)
@pytest.mark.parametrize("device", [False, True])
@pytest.mark.parametrize(
    ("honest", "far"), [(1e20, 1e155), (1e57, LARGEST), (1e120, 1e139), (1.0, 1e139), (1.0, LARGEST)]
)
def test_a_row_whose_squared_distance_overflows_does_not_pull_the_geometric_median(
    front: mt.PreAggregation | None, device: bool, honest: float, far: float
) -> None:
    """Its distance counted as 1e150, so that its weight was as much too large, and its pull had no bound."""
    rows = honest * np.random.default_rng(6).normal(size=(11, 3))
    rows[4] = far * np.array([-1.0, 1.0, -1.0])
    rule = mt.GeometricMedian() if front is None else front >> mt.GeometricMedian()
    for seed in range(5):
        sent = on_device(torch.from_numpy(rows)) if device else rows
        found = np.asarray(rule.aggregate(sent, entropy=FixedKey(seed)).update)
        assert np.abs(found).max() < 3 * honest


@pytest.mark.parametrize("front", FRONTS, ids=repr)
@pytest.mark.parametrize("rule", [mt.GeometricMedian(), mt.Krum(2), mt.SMEA(2), mt.CAF(2), mt.DnC(2)], ids=repr)
@pytest.mark.parametrize("power", [-450, 420])
def test_rows_in_a_unit_near_the_ends_of_the_range(front: mt.PreAggregation | None, rule: mt.Rule, power: int) -> None:
    """The answer is that of the same rows in a usual unit, with a row a thousand million times as far as the others."""
    rows = np.random.default_rng(7).normal(size=(15, 4))
    rows[2] = 1e9
    chain = rule if front is None else front >> rule
    expected = chain.aggregate(rows, entropy=FixedKey(3)).update
    found = chain.aggregate(np.ldexp(rows, power), entropy=FixedKey(3)).update
    np.testing.assert_allclose(np.ldexp(found, -power), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("near", [LEAST, 6.28262969e-235, 1e-160])
@pytest.mark.parametrize("far", [-5.23534783e173, 0.0, LARGEST])
def test_mixed_rows_whose_squared_distance_vanishes_do_not_tie_with_equal_rows(near: float, far: float) -> None:
    """Their distances follow from squares, unless these are no numbers."""
    rows = np.zeros((9, 2))
    rows[0], rows[3] = near, far
    for rule in (mt.Krum(2), mt.MultiKrum(2), mt.GeometricMedian(), mt.Medoid()):
        for seed in range(5):
            found = (mt.Resampling(repeats=1) >> rule).aggregate(rows, entropy=FixedKey(seed)).update
            assert np.abs(found).max() <= 1e-140, rule


def test_a_near_copy_does_not_put_the_others_out_of_range() -> None:
    """Most rows are equal: what is near to them is no unit for what is not."""
    rows = np.random.default_rng(8).normal(size=(12, 3))
    rows[:7] = 0.0
    copied = rows.copy()
    copied[0, 0] = LEAST
    for rule in (mt.Bucketing(size=2) >> mt.GeometricMedian(), mt.DnC(2), mt.CAF(2), mt.SMEA(2), mt.Krum(2)):
        expected, found = (rule.aggregate(given, entropy=FixedKey(2)).update for given in (rows, copied))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_the_medoid_of_rows_near_the_end_of_the_range() -> None:
    """Distances beyond some number all counted as that, and the row of the lowest index won."""
    rows = 3e131 * np.random.default_rng(10).normal(size=(3, 40))
    rows[0] = 1e139
    assert mt.Medoid(p=1).aggregate(rows).selected in ((1,), (2,))


@pytest.mark.parametrize("rule", [mt.Krum(3, p=16), mt.MultiKrum(3, p=16), mt.Krum(3), mt.Krum(3, p=1)], ids=repr)
def test_the_longest_distance_is_not_the_least(rule: mt.Rule) -> None:
    """Between rows at both ends of the range, where p-th powers are infinite."""
    rows = 1e130 * np.random.default_rng(8).normal(size=(11, 3))
    rows[5], rows[6], rows[9] = -1e139, 1e139, 1e139
    assert np.abs(rule(rows)).max() < 1e132


@pytest.mark.parametrize("p", [2.0, 7.0, 16.0])
def test_the_medoid_of_means_in_which_the_largest_rows_cancel(p: float) -> None:
    """All others are as far from such a row as it is from them: it is mixed with any, and its opposite among them."""
    rows = -40 + np.random.default_rng(10).normal(size=(6, 2))
    rows[0], rows[3] = 1e139, -1e139
    honest = rows[[1, 2, 4, 5]]
    np.testing.assert_allclose((mt.NNM(2, p=p) >> mt.Medoid())(rows), honest.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("rule", [mt.CAF(1), mt.ViewFilter(1), mt.DnC(1), mt.GeometricMedian()], ids=repr)
def test_equal_rows_and_one_as_far_as_can_be(rule: mt.Rule) -> None:
    """An infinite difference times no difference would be no number, and spectra of it do not converge."""
    rows = np.full((5, 1), 1e139)
    rows[2] = -0.5e139
    result = rule.aggregate(rows)
    np.testing.assert_allclose(result.update, rows[0], rtol=1e-12)
    assert not np.isnan(result.distances if result.distances is not None else 0.0).any()


@pytest.mark.parametrize("rule", [mt.Krum(2), mt.GeometricMedian(), mt.CAF(2), mt.NNM(2) >> mt.Comed()], ids=repr)
@pytest.mark.parametrize("device", [False, True])
def test_float64_rows_beyond_1e140_are_named(rule: mt.Rule, device: bool) -> None:
    """No rule can square them. The others are aggregated as if they had never been sent."""
    rows = np.random.default_rng(11).normal(size=(11, 3))
    sent = np.insert(rows, [2, 5], [[1e200], [-LARGEST]], axis=0)
    result = rule.aggregate(on_device(torch.from_numpy(sent)) if device else sent)
    assert [(item.row, item.reason) for item in result.quarantined] == [(2, "beyond 1e140"), (6, "beyond 1e140")]
    again = rule.aggregate(on_device(torch.from_numpy(rows)) if device else rows)
    np.testing.assert_array_equal(np.asarray(result.update), np.asarray(again.update))
