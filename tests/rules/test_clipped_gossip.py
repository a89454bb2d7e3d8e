"""Clipped gossip: by hand, and how far one worker can pull."""

import numpy as np
import pytest

import mixtailor as mt


def test_by_hand() -> None:
    """Distances 0, 1, 2, 3 and 1000 with f = 1: the radius is the third largest, 2."""
    rows = np.array([[0.0], [1.0], [2.0], [3.0], [1000.0]])
    assert mt.ClippedGossip(1)(rows, reference=np.array([0.0])) == pytest.approx([(0 + 1 + 2 + 2 + 2) / 5])
    assert mt.ClippedGossip(1, tau=1.0)(rows, reference=np.array([0.0])) == pytest.approx([4 / 5])


def test_one_worker_pulls_by_no_more_than_the_honest_ones() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        honest, own = rng.normal(size=(8, 4)), rng.normal(size=4)
        rule = mt.ClippedGossip(2)
        near = rule(np.vstack([honest, np.tile(own, (2, 1))]), reference=own)
        far = rule(np.vstack([honest, own + rng.normal(size=(2, 4)) * 10.0 ** rng.uniform(0, 9)]), reference=own)
        reach = float(np.sort(np.linalg.norm(honest - own, axis=1))[-1])
        assert np.linalg.norm(far - near) <= 4 * reach * 2 / 10 + 1e-9


def test_without_a_reference_it_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="needs the worker's own vector"):
        mt.ClippedGossip(1)(np.ones((4, 2)))
    with pytest.raises(ValueError, match="at least 5 rows"):
        mt.ClippedGossip(2)(np.ones((4, 2)), reference=np.ones(2))
