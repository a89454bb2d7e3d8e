"""Scores from distances to neighbours: their order is right wherever the distances lie."""

import numpy as np
import pytest

from mixtailor.kernels.selection import by_neighbours, closest, nearest
from mixtailor.rules import Bulyan
from mixtailor.updates.units import in_unit


def spread(seed: int, n: int = 9) -> np.ndarray:
    """Distances between points on a line, from a billionth to a billion apart; two points are one."""
    random = np.random.default_rng(seed)
    points = random.choice([-1.0, 1.0], n) * 2.0 ** random.integers(-30, 31, n) * random.uniform(1, 2, n)
    points[1] = points[0]
    return np.abs(points[:, None] - points)


def test_by_hand() -> None:
    """0, 1, 3 and 7 with two neighbours: 1 + 9, 1 + 4, 4 + 9, 16 + 36; of equal scores the lower index first."""
    points = np.array([0.0, 1.0, 3.0, 7.0])
    order, scores = by_neighbours(np.abs(points[:, None] - points), 2)
    assert (order.tolist(), scores.tolist()) == ([1, 0, 2, 3], [10.0, 5.0, 13.0, 52.0])
    order, scores = by_neighbours(np.abs(points[:, None] - points), 1, 1)
    assert (order.tolist(), scores.tolist()) == ([0, 1, 2, 3], [1.0, 1.0, 2.0, 4.0])


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("exponent", [-950, -560, -530, -470, 470, 530, 560, 950])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_does_not_depend_on_the_unit(seed: int, exponent: int, power: int) -> None:
    """Units are powers of two, so that nothing is rounded."""
    distances = spread(seed)
    scaled, unit = in_unit(np.ldexp(distances, exponent))
    for neighbours in (1, 4, 8):
        order, scores = by_neighbours(distances, neighbours, power)
        found, others = by_neighbours(scaled, neighbours, power)
        np.testing.assert_array_equal(found, order)
        np.testing.assert_allclose(others * np.ldexp(unit, -exponent) ** power, scores, rtol=1e-14)


@pytest.mark.parametrize("exponent", [-700, -520, -400, 0, 400, 520, 700])
def test_distances_keep_their_ratios_and_have_squares(exponent: int) -> None:
    """Distances stay as they are where their squares are numbers, else they are in a unit near the medoid's reach."""
    points = np.array([0.0, 1.0, 3.0, 7.0, 15.0])
    distances = np.ldexp(np.abs(points[:, None] - points), exponent)
    found, unit = in_unit(distances)
    assert (unit == 1.0) == (abs(exponent) < 450) and np.frexp(unit)[0] == 0.5
    np.testing.assert_array_equal(found * unit, distances)
    assert (found[~np.eye(5, dtype=bool)] ** 2 > 0).all() and np.isfinite(found**2).all()
    assert not in_unit(np.zeros((3, 3)))[0].any()


@pytest.mark.parametrize("exponent", [-700, 700])
def test_bulyan_picks_alike_at_every_size(exponent: int) -> None:
    rows = np.random.default_rng(3).normal(size=(11, 4))
    assert Bulyan(2).aggregate(np.ldexp(rows, exponent)).selected == Bulyan(2).aggregate(rows).selected


def test_ties_go_to_the_lower_index() -> None:
    assert closest(np.array([3.0, 1.0, 2.0, 1.0, 2.0]), 3).tolist() == [1, 2, 3]
    points = np.array([0.0, 2.0, 1.0, 2.0])
    assert nearest(np.abs(points[:, None] - points), 3).tolist() == [[0, 2, 1], [1, 3, 2], [2, 0, 1], [3, 1, 2]]
