"""Distances to a point in many norms at once, and to many points; medians side by side."""

import math

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.rules.steps import side_by_side
from mixtailor.updates import Median, Updates

NORMS = (1.0, 2.0, 3.0, 7.5, 16.0, math.inf)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_a_tuple_of_norms_is_each_norm_alone(scale) -> None:
    """Also where the sixteenth powers under- or overflow."""
    rows = (scale * np.random.default_rng(0).normal(size=(7, 300))).astype(np.float32)
    view = Updates.arrived(receive(rows))
    together = view.lengths_to(view.columns(Median()), NORMS)
    for p, found in zip(NORMS, together, strict=True):
        alone = Updates.arrived(receive(rows))
        np.testing.assert_allclose(found, alone.distances_to(alone.columns(Median()), p), rtol=1e-12)
        expected = np.abs(rows.astype(float) / scale - np.median(rows.astype(float) / scale, axis=0))
        largest = expected.max(axis=1)
        norm = largest if math.isinf(p) else largest * ((expected / largest[:, None]) ** p).sum(axis=1) ** (1 / p)
        np.testing.assert_allclose(found / scale, norm, rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_many_points_are_each_point_alone(scale) -> None:
    """Bit for bit, one of them a row itself, each in its own norm."""
    rows = (scale * np.random.default_rng(0).normal(size=(6, 500))).astype(np.float32)
    view = Updates.arrived(receive(rows))
    weights = [*np.random.default_rng(1).dirichlet(np.ones(6), size=5), np.eye(6)[2]]
    found = view.distances_to_each([view.combine(each) for each in weights], NORMS)
    for each, p, distances in zip(weights, NORMS, found, strict=True):
        np.testing.assert_array_equal(distances, view.distances_to_each([view.combine(each)], [p])[0])


def test_medians_side_by_side_are_each_median_alone() -> None:
    """In all norms, with far rows and with rows that are mostly equal."""
    random = np.random.default_rng(2)
    medians = [mt.GeometricMedian(p=p) for p in (1.0, 1.5, 3.0, 16.0, math.inf)]
    far = random.normal(size=(9, 40))
    far[0] *= 1e8
    for rows in (random.normal(size=(9, 40)), far, np.repeat(random.normal(size=(1, 40)), 9, axis=0)):
        home = Updates.arrived(receive(rows))
        for rule, point in zip(medians, side_by_side([rule.steps(home) for rule in medians], home), strict=True):
            np.testing.assert_array_equal(home.at(point), rule(rows))
