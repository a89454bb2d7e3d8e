"""Far rows that cancel inside a mixed row: squares have no digits of what is left."""

import dataclasses
import math

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.storage import Matrix
from mixtailor.updates import Updates


def view(rows: np.ndarray) -> Updates:
    return Updates.of(Matrix.of(rows))


def differences(rows: np.ndarray) -> object:
    """The rows as differences to a base of zeros."""
    received, n = receive(np.vstack([rows, np.zeros((1, rows.shape[1]), rows.dtype)])), len(rows)
    return dataclasses.replace(received, received=tuple(range(n)), n=n, base=True)


def bucketed(far: float, *, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Nine rows in three buckets; two of the last one are far, with opposite signs, and the third comes after them."""
    rows = np.random.default_rng(3).normal(5.0, 0.1, (9, 6)).astype(dtype)
    rows[6], rows[7] = far, -far
    return rows, np.kron(np.eye(3), np.full(3, 1 / 3))


@pytest.mark.parametrize("far", [1e5, 1e8, 1e12, 1e30])
def test_what_is_left_is_measured(far: float) -> None:
    rows, weights = bucketed(far)
    mixed = np.array([row @ rows.astype(np.longdouble) for row in weights.astype(np.longdouble)])
    mixed[2] = rows[8].astype(np.longdouble) / 3  # what is left, without rounding
    expected = np.linalg.norm((mixed[:, None] - mixed[None]).astype(np.float64), axis=2)
    # In a sum of float64 numbers at 1e30 the third row may be lost: its third, then.
    slack = np.linalg.norm(rows[8].astype(np.float64)) / 3 if far > 1e15 else 1e-5
    np.testing.assert_allclose(view(rows).mix(weights).distances(), expected, atol=1.01 * slack)


def test_a_bucket_whose_far_rows_cancel_is_not_chosen() -> None:
    rows, _ = bucketed(1e30)
    weights = np.kron(np.eye(3), np.full(3, 1 / 3))[[0, 0, 1, 1, 2]]
    distances = view(rows).mix(weights).distances()
    assert distances[4, :4].min() > 3.0 > distances[:4, :4].max()


def test_twins_far_away_do_not_blur_the_others() -> None:
    """Equal far rows, each in another mixed row: they cancel in the difference, to the bit."""
    rows = np.random.default_rng(4).normal(size=(7, 40))
    rows[5] = rows[6] = 1e30
    weights = np.zeros((2, 7))
    weights[0, [0, 1, 5]] = weights[1, [2, 3, 6]] = 1 / 3
    found = view(rows).mix(weights).distances()[0, 1]
    assert found < 1e16  # sums of float64 numbers at 1e30 are exact to 1e14; squares would say up to 1e22


def test_one_far_row_needs_no_other_reading() -> None:
    rows = np.random.default_rng(5).normal(size=(12, 30)).astype(np.float32)
    rows[7] = 1e30
    whole = view(rows)
    weights = np.array([np.isin(np.arange(12), np.argsort(line)[:10]) / 10 for line in whole.distances()])
    assert whole.basis.between(weights) is not None
    assert np.isfinite((mt.NNM(f=2) >> mt.Krum(f=2))(rows)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("far", [1e12, 1e30, 1e37])
def test_what_cancelled_when_it_was_measured_cancels_in_the_answer(far: float, dtype: type) -> None:
    """Two far rows with opposite signs make one mixed row; added to others one by one, they leave their rounding."""
    rows = np.random.default_rng(6).normal(size=(12, 5)).astype(dtype)
    rows[4], rows[9] = far, -far
    order = np.array([4, 9, 0, 1, 2, 3, 5, 6, 7, 8, 10, 11])
    weights = np.zeros((6, 12))
    weights[np.arange(12) // 2, order] = 0.5
    mixed = view(rows).mix(weights)
    mixed.distances()
    expected = rows[order[2:]].astype(np.float64).sum(axis=0) / 12
    np.testing.assert_allclose(mixed.at(mixed.mean()), expected, atol=1e-6)
    np.testing.assert_allclose(
        mixed.take([0, 1, 2]).at(mixed.take([0, 1, 2]).mean()), rows[:4].sum(axis=0) / 6, atol=1e-6
    )


@pytest.mark.parametrize("as_differences", [False, True])
@pytest.mark.parametrize("rule", [mt.MultiKrum(f=2, p=1), mt.MultiKrum(f=2), mt.GeometricMedian(p=3)], ids=repr)
def test_what_cancels_in_a_mean_leaves_nothing_in_the_answer(rule: mt.Rule, as_differences: bool) -> None:
    """Some keys put the two far rows into one mean: the result is what its weights say, without rounding."""
    rows = np.random.default_rng(7).normal(size=(14, 5)).astype(np.float32)
    rows[4], rows[9] = 1e30, -1e30
    sent = differences(rows) if as_differences else rows
    cancelled = 0
    for seed in range(40):
        found = (mt.Resampling(repeats=2) >> rule).aggregate(sent, entropy=mt.SeededEntropy(seed))
        cancelled += found.weights is not None and found.weights[4] > 0
        exact = [math.fsum(found.weights * column) for column in rows.T.astype(np.float64)]
        np.testing.assert_allclose(found.update, exact, atol=1e-5)
    assert cancelled > 2


@pytest.mark.parametrize("rule", [mt.GeometricMedian(), mt.CAF(2), mt.SMEA(2), mt.Medoid(), mt.MultiKrum(2)], ids=repr)
def test_rules_see_mixed_rows_as_if_they_had_been_sent(rule: mt.Rule) -> None:
    """Inner products, too, are those of what is left when far rows cancelled, and not of what was received."""
    rows = np.random.default_rng(9).normal(size=(18, 7))
    rows[4], rows[9] = 1e30, -1e30
    order = np.array([4, 9, *(row for row in range(18) if row not in (4, 9))])
    weights = np.zeros((9, 18))
    weights[np.arange(18) // 2, order] = 0.5
    made = rows[order].reshape(9, 2, 7).mean(axis=1)
    mixed = view(rows).mix(weights)
    np.testing.assert_allclose(mixed.at(rule.decide(mixed)), rule(made), atol=1e-6)


@pytest.mark.parametrize("d", [5, 29, 1003])
def test_one_mixed_row_is_answered_with_the_bits_that_it_was_measured_with(d: int) -> None:
    """Three far rows whose sum is near zero leave rounding that depends on how each term is rounded: at 1e30, 1e14."""
    generator = np.random.default_rng(8)
    rows = generator.normal(size=(12, d))
    rows[2:4] = 1e30 * generator.normal(size=(2, d))
    rows[4] = -rows[2] - rows[3]
    weights = np.full((5, 12), 1 / 7)
    weights[np.arange(5)[:, None], generator.permuted(np.tile(np.arange(5, 12), (5, 1)), axis=1)[:, :5]] = 0.0
    mixed = view(rows).mix(weights)
    mixed.distances(3.0)
    made = mixed.matrix()
    assert np.abs(made).max() > 1e10  # there is rounding to be seen
    for row in range(5):
        np.testing.assert_array_equal(mixed.at(mixed.row(row)), made[row])
        np.testing.assert_array_equal(mixed.at(mixed.combine(2.0 * np.eye(5)[row])), 2.0 * made[row])
