"""Graphs: eigenvalues that are known, and the graph on which nobody can decide."""

import numpy as np
import pytest

from mixtailor.theory import fiedler_vector, gossip_condition, spectral_gap


def complete(n: int) -> np.ndarray:
    return np.ones((n, n)) - np.eye(n)


def test_known_eigenvalues() -> None:
    """A complete graph of n has connectivity n; a ring has 2 - 2 cos(2 pi / n)."""
    assert gossip_condition(complete(7)).connectivity == pytest.approx(7.0)
    ring = np.roll(np.eye(8), 1, axis=1) + np.roll(np.eye(8), -1, axis=1)
    found = gossip_condition(ring)
    assert found.connectivity == pytest.approx(2 - 2 * np.cos(2 * np.pi / 8))
    assert spectral_gap(ring) == pytest.approx(1 - (1 + 2 * np.cos(2 * np.pi / 8)) / 3)


def test_the_graph_on_which_nobody_can_decide() -> None:
    """Three complete graphs of four, each worker with b = 2 neighbours in each other one: connectivity is 2b."""
    m, b = 4, 2
    joined = sum(np.roll(np.eye(m), shift, axis=1) for shift in range(b))
    graph = np.block(
        [
            [complete(m), joined, joined],
            [joined.T, complete(m), joined],
            [joined.T, joined.T, complete(m)],
        ]
    )
    found = gossip_condition(graph, range(2 * m, 3 * m))
    assert found.byzantine_neighbours == b and found.connectivity == pytest.approx(2 * b) and not found.possible


def test_a_graph_that_falls_apart_has_no_connectivity() -> None:
    line = np.diag(np.ones(4), 1) + np.diag(np.ones(4), -1)
    assert gossip_condition(line, [2]).connectivity == 0.0
    assert not gossip_condition(line, [2]).possible and gossip_condition(line, [2]).majority
    assert fiedler_vector(line, [2])[2] == 0.0


def test_wrong_graphs_are_refused() -> None:
    for wrong in (np.ones((2, 3)), np.ones((3, 3)), 2 * complete(3), np.triu(complete(3))):
        with pytest.raises(ValueError, match="needs"):
            gossip_condition(wrong)
    with pytest.raises(ValueError, match="Byzantine workers among"):
        gossip_condition(complete(3), [3])
