"""Points beside rows: formulas, shared geometry, and rows as a server receives them."""

import numpy as np
import pytest
import torch

from mixtailor.intake import receive
from mixtailor.intake.device import on_device
from mixtailor.updates import Deviation, Median, Updates

ROWS = (0.5 + np.random.default_rng(0).normal(size=(8, 700))).astype(np.float32)
NORMS = (1.0, 2.0, 3.0, 16.0, float("inf"))


def doubled_sign(_start, _stop, v):
    return 2.0 * ((v > 0) * 1.0 - (v < 0) * 1.0) + 0.0 * v


def views():
    trees = [[row[:300], row[300:]] for row in ROWS]
    return [
        Updates.arrived(receive(ROWS)),
        Updates.arrived(receive(trees)),
        Updates.arrived(on_device(torch.tensor(ROWS))),
    ]


def naive(matrix, p):
    return np.array([[np.linalg.norm(a - b, p) for a in matrix] for b in matrix])


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("rows", views(), ids=lambda rows: type(rows.reader.storage).__name__)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_distances_in_every_norm(rows, rounded, count) -> None:
    """Combinations, statistics and formulas beside the rows, some of them twice."""
    wide = ROWS.astype(np.float64)
    mean = rows.mean()
    points = [rows.combine(np.full(8, -0.3)), rows.formula(doubled_sign, mean), rows.columns(Median())][:count]
    vectors = [wide.sum(axis=0) * -0.3, 2 * np.sign(wide.mean(axis=0)), np.median(wide, axis=0)][:count]
    view = rows.beside(*points, points[0], rounded=rounded)
    matrix = np.vstack([wide, *vectors, vectors[0]])
    for p, between in zip(NORMS, view.distances(NORMS), strict=True):
        np.testing.assert_allclose(between, naive(matrix, p), rtol=1e-5, atol=1e-5)
        assert between[-1, 8] == between[8, -1] == 0.0


@pytest.mark.parametrize("rows", views(), ids=lambda rows: type(rows.reader.storage).__name__)
def test_a_point_made_beside_the_rows_shares_their_geometry(rows) -> None:
    """Mean less deviations: distances at p = 2 follow without a pass over the candidate."""
    wide = ROWS.astype(np.float64)
    frame = rows.beside(rows.columns(Deviation()))
    for z in (0.5, 2.0):
        view = rows.beside(frame.combine(np.append(np.full(8, 1 / 8), -z)))
        assert view.basis is frame.basis
        matrix = np.vstack([wide, wide.mean(axis=0) - z * wide.std(axis=0)])
        np.testing.assert_allclose(view.distances(2.0), naive(matrix, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", views(), ids=lambda rows: type(rows.reader.storage).__name__)
def test_inner_products_of_points(rows) -> None:
    """The same with the geometry known and without."""
    wide = ROWS.astype(np.float64)
    points = rows.mean(), rows.combine(np.arange(8.0)), rows.columns(Median())
    vectors = np.stack([wide.mean(axis=0), np.arange(8.0) @ wide, np.median(wide, axis=0)])
    np.testing.assert_allclose(rows.inner(*points), vectors @ vectors.T, rtol=1e-6)
    np.testing.assert_allclose(rows.inner(*points[:2]), (vectors @ vectors.T)[:2, :2], rtol=1e-6)
    rows.distances(2.0)
    np.testing.assert_allclose(rows.inner(*points[:2]), (vectors @ vectors.T)[:2, :2], rtol=1e-6)


@pytest.mark.parametrize("rows", views(), ids=lambda rows: type(rows.reader.storage).__name__)
def test_sampled_coordinates_of_a_formula(rows) -> None:
    """Those of the rows and of the points are of the same coordinates."""
    which = np.array([0, 5, 299, 300, 699])
    found = rows.beside(rows.formula(doubled_sign, rows.mean())).coordinates(which)
    np.testing.assert_allclose(found[:8], ROWS[:, which])
    np.testing.assert_allclose(found[8], 2 * np.sign(ROWS.astype(float).mean(axis=0))[which])


def test_joined_rows_are_of_the_rows_own_type() -> None:
    """A third is no float32: what the server's statistic sees is the rounded number."""
    rows = Updates.arrived(receive(np.ones((3, 4), np.float32)))
    view = rows.beside(rows.combine([1 / 9, 1 / 9, 1 / 9]), rounded=True, held=True)
    for _ in range(2):
        np.testing.assert_array_equal(view.matrix()[3], np.full(4, 1 / 3, np.float32))
