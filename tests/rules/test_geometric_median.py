"""The geometric median: where it stops, what it tells, and what extrapolation must not break."""

import math
import warnings
from typing import Any

import numpy as np
import pytest

from mixtailor.intake import receive
from mixtailor.kernels.medians import euclidean_median
from mixtailor.kernels.selection import medoid
from mixtailor.rules import GeometricMedian
from mixtailor.testing import check_rule
from mixtailor.updates import Updates

OTHER = (1.0, 1.5, 3.0, 8.0, math.inf)
ROWS = np.random.default_rng(0).normal(size=(12, 30))

# Here Anderson's steps go astray, and only plain ones find the way.
HARD = {
    "grid": [
        [0, -1], [3, 2], [0, 2], [1, 2], [0, -2], [-3, 2], [-2, 3], [0, -3], [3, -2], [1, 3], [-1, -2]
    ],
    "far": [[2e6, 2e6], [3, 0], [1, -2], [0, -3], [2, -2], [3, 2], [2, -1], [-1, -3], [-1, -3]],
    "near a row": [
        [1.98, 0.7], [0.69, 0.34], [0.3, 0.24], [0.34, -0.47], [0.36, -0.17], [-0.21, -0.68], [1.71, -0.06],
        [0.2, 0.4], [0.35, -0.61], [-0.69, 0.07], [0.53, -0.7], [-0.3, -0.39], [-0.32, -2.16],
    ],
}  # fmt: skip


def away(rows: np.ndarray, point: np.ndarray, p: float) -> np.ndarray:
    return np.linalg.norm(rows - point, ord=p, axis=1)


def inverse(distances: np.ndarray, least: float) -> np.ndarray:
    weights = 1 / np.maximum(distances, least)
    return weights / weights.sum()


def test_by_hand() -> None:
    """Of a triangle with an angle above 120 degrees it is that corner; of an equilateral one, the middle."""
    flat = np.array([[-2.0, 0.5], [2.0, 0.5], [0.0, 0.0]])
    np.testing.assert_allclose(GeometricMedian()(flat), [0.0, 0.0], atol=1e-5)
    even = np.array([[1.0, 0.0], [-0.5, math.sqrt(0.75)], [-0.5, -math.sqrt(0.75)]])
    np.testing.assert_allclose(GeometricMedian()(even), [0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("p", OTHER)
def test_one_pass_written_out(p: float) -> None:
    """Weights from the median, their combination, the weights from there: the result, and how much they moved."""
    start = np.median(ROWS, axis=0)
    least = 1e-6 * float(np.median(away(ROWS, start, p)))
    first = inverse(away(ROWS, start, p), least)
    second = inverse(away(ROWS, first @ ROWS, p), least)
    residual = np.abs(second - first).max() / first.max()
    with pytest.warns(
        RuntimeWarning, match=rf"p=.*limit=1\) stopped after 1 iterations with a residual of {residual:.2g}"
    ):
        result = GeometricMedian(p=p, limit=1).aggregate(ROWS)
    np.testing.assert_allclose(result.weights, second, rtol=1e-9)
    assert result.iterations == 1 and result.residual == pytest.approx(residual)


@pytest.mark.parametrize("p", OTHER)
@pytest.mark.parametrize("kind", HARD)
def test_weights_are_inverse_to_the_distances_from_the_answer(kind: str, p: float) -> None:
    """To the tolerance and within the default limit, also where extrapolation is no help; a warning is an error."""
    rows = np.array(HARD[kind], dtype=float)
    result = GeometricMedian(p=p).aggregate(rows)
    assert result.weights is not None and result.residual is not None and 1 < (result.iterations or 0) <= 100
    assert result.residual <= 1e-6
    least = 1e-6 * float(np.median(away(rows, np.median(rows, axis=0), p)))
    expected = inverse(away(rows, result.update, p), least)
    assert np.abs(result.weights - expected).max() <= 3e-6 * expected.max()


def test_extrapolation_saves_passes() -> None:
    """Gaussian rows in five norms: five to seven readings each, where plain steps take 13 to 20."""
    taken = [GeometricMedian(p=p).aggregate(ROWS + k).iterations for p in OTHER for k in range(2)]
    assert max(taken) <= 8 and min(taken) > 1


def test_a_limit_of_a_hundred_passes() -> None:
    """What rounding keeps out of reach stops there, with the best value found."""
    rule = GeometricMedian(p=3, tolerance=1e-300)
    with pytest.warns(RuntimeWarning, match="stopped after 100 iterations with a residual of"):
        result = rule.aggregate(ROWS + 1e6)
    assert result.iterations == 100 and 0 < (result.residual or 0) < 1e-9


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_where_most_rows_are_equal_they_are_the_answer(p: float) -> None:
    rows = np.array([[1.0, 2.0]] * 4 + [[5.0, 9.0], [7.0, -1.0], [0.0, 0.0]])
    result = GeometricMedian(p=p).aggregate(rows)
    np.testing.assert_array_equal(result.update, [1.0, 2.0])
    assert (result.iterations, result.residual) == (0, 0.0)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e20])
def test_rows_so_far_that_their_weight_is_lost_have_none(scale: float) -> None:
    """Beyond 1e120 median distances; a row at 1e110 of them still has its 1e-110."""
    for far, weight in ((1e110, True), (1e130, False)):
        rows = scale * ROWS
        rows[3] *= far
        result = GeometricMedian(p=3).aggregate(rows)
        assert result.weights is not None and (result.weights[3] > 0) == weight and np.isfinite(result.update).all()


@pytest.mark.parametrize("p", [1.0, math.inf])
def test_the_least_numbers_are_weighed_like_any_others(p: float) -> None:
    """Rows at 1e-129: 1e-6 of their distances has no square, and no weight is infinite."""
    whole = np.round(1000 * ROWS[:, :3])
    whole[4] = np.median(np.delete(whole, 4, axis=0), axis=0)  # at the start, where the smoothing counts
    expected = GeometricMedian(p=p).aggregate(whole)
    result = GeometricMedian(p=p).aggregate(whole * 2.0**-440)
    assert result.weights is not None and expected.weights is not None
    np.testing.assert_allclose(result.weights, expected.weights, rtol=1e-3)
    np.testing.assert_allclose(result.update * 2.0**440, expected.update, atol=1.0)


def test_answers_are_remembered_by_norm() -> None:
    """Several medians on the same updates, as in a pool that is looked at as a whole."""
    home = Updates.arrived(receive(ROWS))
    for p in OTHER:
        np.testing.assert_array_equal(home.at(GeometricMedian(p=p).decide(home)), GeometricMedian(p=p)(ROWS))


def test_a_median_that_converges_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (GeometricMedian().aggregate(ROWS).residual or 0) <= 1e-6


def test_a_residual_of_exactly_the_tolerance_is_enough() -> None:
    """It ends the iteration there, and nothing is warned of."""
    rows = np.random.default_rng(8).normal(size=(7, 4))
    with pytest.warns(RuntimeWarning, match="stopped after 1 iterations"):
        first = GeometricMedian(p=3, limit=1).aggregate(rows)
    assert first.residual is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = GeometricMedian(p=3, tolerance=first.residual).aggregate(rows)
    assert (found.iterations, found.residual) == (1, first.residual)
    np.testing.assert_array_equal(found.update, first.update)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_it_starts_at_the_mean_of_the_rows_nearest_to_the_medoid(seed: int) -> None:
    """One step from there is told by the weights; with seed 3 other rows would be the nearest in the norm p = 3."""
    rows = np.random.default_rng(seed).normal(size=(9, 5))
    between = np.linalg.norm(rows[:, None] - rows, axis=2)
    nearest = np.argsort(between[medoid(between)])[:5]
    away = np.linalg.norm(rows - rows[nearest].mean(axis=0), axis=1)
    with pytest.warns(RuntimeWarning, match="stopped after 1 iterations"):
        found = GeometricMedian(limit=1)(rows)
    np.testing.assert_allclose(found, (1 / away) @ rows / (1 / away).sum(), rtol=1e-10)


def test_ten_thousand_iterations_are_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless another limit is given: no rows are known that need as many."""
    asked = []

    def spy(*arguments: Any) -> Any:
        asked.append(arguments[-1])
        return euclidean_median(*arguments)

    monkeypatch.setattr("mixtailor.rules.geometric_median.euclidean_median", spy)
    GeometricMedian()(ROWS)
    GeometricMedian(limit=500)(ROWS)
    assert asked == [10_000, 500]


def test_a_row_is_far_in_units_of_the_others_at_the_least_sizes_too() -> None:
    """Rows of 1e-200 and one at 1e-30, whose distance squared would be no number in their unit."""
    rows = 1e-200 * np.random.default_rng(0).normal(size=(8, 3))
    rows[3] = 1e-30
    assert (np.abs(GeometricMedian()(rows)) < 1e-200).all()


@pytest.mark.parametrize("p", [1.0, 1.2, 1.5, 3.0, 8.0, 16.0])
@pytest.mark.parametrize("far", [0.0, 50.0])
def test_the_minimiser_has_the_least_sum_of_distances(p: float, far: float) -> None:
    """No small move of one coordinate, nor one towards a row, makes the sum smaller; the weights' result is above."""
    rows = np.random.default_rng(1).normal(size=(12, 40))
    rows[10:] *= 1.0 + far
    result = GeometricMedian(p=p, minimises=True, tolerance=1e-9).aggregate(rows)
    least = away(rows, result.update, p).sum()
    plain = away(rows, GeometricMedian(p=p)(rows), p).sum()
    assert least <= plain * (1 + 1e-9)
    if p >= 8.0:
        assert least < 0.995 * plain
    moves = [*(1e-3 * np.eye(40)), *(-1e-3 * np.eye(40)), *(1e-2 * (rows - result.update))]
    assert all(away(rows, result.update + move, p).sum() >= least * (1 - 1e-7) for move in moves)


def test_the_minimiser_at_one_is_the_median_and_at_two_what_it_was() -> None:
    """And there is none of ours at infinity."""
    np.testing.assert_array_equal(GeometricMedian(p=1, minimises=True)(ROWS), np.median(ROWS, axis=0))
    np.testing.assert_array_equal(GeometricMedian(minimises=True)(ROWS), GeometricMedian()(ROWS))
    with pytest.raises(ValueError, match="needs a finite p"):
        GeometricMedian(p=math.inf, minimises=True)


def test_the_minimiser_keeps_the_laws_and_says_how_it_ended() -> None:
    """On every storage that the laws run on; with too few steps it warns."""
    check_rule(GeometricMedian(p=3, minimises=True))
    result = GeometricMedian(p=3, minimises=True).aggregate(ROWS)
    assert result.iterations is not None and result.residual is not None
    assert 1 <= result.iterations < 20 and result.residual <= 1e-6
    with pytest.warns(RuntimeWarning, match="stopped after 1 iterations"):
        GeometricMedian(p=16, minimises=True, limit=1)(ROWS)
    equal = np.vstack([np.ones((8, 3)), np.full((2, 3), 1e6)])
    np.testing.assert_allclose(GeometricMedian(p=3, minimises=True)(equal), np.ones(3))
