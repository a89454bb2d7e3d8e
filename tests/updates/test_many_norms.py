"""Distances to a point in many norms at once, and twins of updates for other threads."""

import math

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.attacks import Tailored, Trials
from mixtailor.attacks.base import Scene
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


def test_a_twin_shares_what_is_remembered_and_not_the_randomness() -> None:
    """What one computed the other knows; its draws do not move the other's."""
    home = receive(np.eye(4)).home
    home.remember("answer", lambda: 42)
    twin = home.twin()
    assert twin.remember("answer", lambda: 0) == 42
    twin.remember("later", lambda: 1)
    assert home.remember("later", lambda: 0) == 1
    twin.call.random = np.random.default_rng(0)
    assert home.call.random is not twin.call.random
    assert twin.distances(2.0) is home.distances(2.0)


def test_a_pool_on_threads_is_the_pool_one_by_one(monkeypatch) -> None:
    """At a size where threads are used: bit for bit, rules that draw among them."""
    rows = 0.3 + np.random.default_rng(1).normal(size=(10, 8000))
    pool = mt.MixTailor([*mt.paper_pool(2), mt.Subsampled(mt.Krum(2), 8), mt.DnC(2)])

    def outcomes():
        scene = Scene(receive(rows).home, 2, 12, None, None, np.random.default_rng(0))
        trials = Trials(pool, scene)
        return [trials.outcomes(Tailored(eps).points(scene)) for eps in (0.1, 10.0)], trials.evaluations

    together = outcomes()
    monkeypatch.setattr("mixtailor.attacks.trials._LARGE", math.inf)
    assert outcomes() == together
