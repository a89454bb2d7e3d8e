"""Distances to a point in many norms at once."""

import math

import numpy as np
import pytest

from mixtailor.updates import Median
from mixtailor.updates.receive import receive

NORMS = (1.0, 2.0, 3.0, 7.5, 16.0, math.inf)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_a_tuple_of_norms_is_each_norm_alone(scale) -> None:
    """Also where the sixteenth powers under- or overflow."""
    rows = (scale * np.random.default_rng(0).normal(size=(7, 300))).astype(np.float32)
    home = receive(rows).home
    together = home.distances_to(home.columns(Median()), NORMS)
    for p, found in zip(NORMS, together, strict=True):
        alone = receive(rows).home
        np.testing.assert_allclose(found, alone.distances_to(alone.columns(Median()), p), rtol=1e-12)
        expected = np.abs(rows.astype(float) / scale - np.median(rows.astype(float) / scale, axis=0))
        largest = expected.max(axis=1)
        norm = largest if math.isinf(p) else largest * ((expected / largest[:, None]) ** p).sum(axis=1) ** (1 / p)
        np.testing.assert_allclose(found / scale, norm, rtol=1e-5)
