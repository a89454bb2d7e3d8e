"""Scores from distances to neighbours: their order is right wherever the distances lie."""

import numpy as np
import pytest

from mixtailor.kernels.selection import by_neighbours, closest, nearest
from mixtailor.rules import Bulyan


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


@pytest.mark.parametrize("exponent", [-440, 440])
def test_bulyan_picks_alike_at_every_size(exponent: int) -> None:
    rows = np.random.default_rng(3).normal(size=(11, 4))
    assert Bulyan(2).aggregate(np.ldexp(rows, exponent)).selected == Bulyan(2).aggregate(rows).selected


def test_ties_go_to_the_lower_index() -> None:
    assert closest(np.array([3.0, 1.0, 2.0, 1.0, 2.0]), 3).tolist() == [1, 2, 3]
    points = np.array([0.0, 2.0, 1.0, 2.0])
    assert nearest(np.abs(points[:, None] - points), 3).tolist() == [[0, 2, 1], [1, 3, 2], [2, 0, 1], [3, 1, 2]]
