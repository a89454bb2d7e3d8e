"""Training without a server: topologies, what a worker receives, and who is lost."""

import numpy as np
import pytest
import torch

import mixtailor as mt
from mixtailor.attacks import Tailored
from mixtailor.simulation import TOPOLOGIES, Bottleneck, Decentralised, Settings, synthetic, topology


@pytest.mark.parametrize("name", list(TOPOLOGIES))
@pytest.mark.parametrize("n", [8, 12])
def test_every_topology_is_symmetric_connected_and_repeats(name: str, n: int) -> None:
    graph = topology(name, n, seed=3)
    assert np.array_equal(graph, graph.T) and not np.diag(graph).any()
    assert (np.linalg.matrix_power(graph + np.eye(n), n) > 0).all(), "everybody reaches everybody"
    assert np.array_equal(graph, topology(name, n, seed=3))


def test_degrees_are_those_of_the_names() -> None:
    assert set(topology("ring", 9).sum(axis=1)) == {2.0}
    assert set(topology("torus", 12).sum(axis=1)) == {4.0}
    assert set(topology("random_regular", 12, degree=5).sum(axis=1)) == {5.0}
    clusters = topology("two_clusters", 12, bridges=2)
    assert clusters[:6, 6:].sum() == 2.0


def test_a_file_of_edges(tmp_path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n1,2  # a comment\n\n2 0\n")
    assert np.array_equal(topology(path, 3), topology("complete", 3))
    for text, match in (("0 3\n", "Line 1"), ("0 0\n", "Line 1"), ("0 x\n", "Line 1"), ("0 1\n", "not connected")):
        path.write_text(text)
        with pytest.raises(ValueError, match=match):
            topology(path, 3)
    with pytest.raises(ValueError, match="Did you mean 'ring'"):
        topology("rin", 5)


def made(rule, graph="complete", attack=None, *, n=10, byzantine=2, rounds=40, seed=0):
    settings = Settings(
        n=n, byzantine=byzantine, rounds=rounds, batch=8, learning_rate=0.1, momentum=0.0, seed=seed, evaluate_every=20
    )
    return Decentralised(synthetic(), "logistic", rule, attack, settings=settings, graph=graph)


@pytest.mark.parametrize(
    "rule",
    [mt.MoNNA(2), mt.ClippedGossip(2), mt.NNM(2) >> mt.Comed(), mt.MixTailor([mt.MoNNA(2), mt.ClippedGossip(2)])],
    ids=repr,
)
def test_rules_hold_on_a_complete_graph_and_the_mean_does_not(rule) -> None:
    attack = Tailored(100.0)
    robust, plain = made(rule, attack=attack).run(), made(mt.Mean(), attack=attack).run()
    assert robust.records[-1]["least"] > 0.7 > plain.records[-1]["least"]
    assert robust.lost() == [] and robust.condition.possible


def test_different_neighbours_are_sent_different_things() -> None:
    """Two honest workers with other models receive other Byzantine vectors in the same round."""
    network = made(mt.MoNNA(2), attack=Tailored(1.0))
    network._models += torch.randn(network._models.shape, generator=torch.Generator().manual_seed(0))
    first, second = network._honest[:2]
    sent = network._models
    messages = [network._received(worker, sent, 0)[-1] + sent[worker] for worker in (first, second)]
    assert float((messages[0] - messages[1]).norm()) > 1.0


def test_a_bottleneck_is_attacked_along_its_cut() -> None:
    """Two clusters with one bridge, one Byzantine worker in each: the two sides are sent in opposite directions."""
    network = made(mt.MoNNA(1), "two_clusters", Bottleneck(1.0), n=12, byzantine=2)
    assert not network.condition.possible
    network._models += torch.randn(network._models.shape, generator=torch.Generator().manual_seed(0))
    pushed = {}
    for worker in network._honest:
        if network.graph[worker, list(network.byzantine)].any():
            pushed[worker] = network._received(worker, network._models, 0)[-1]
    signs = {worker: np.sign(network._fiedler[worker]) for worker in pushed}
    one = next(worker for worker in pushed if signs[worker] > 0)
    for worker, push in pushed.items():
        assert torch.allclose(push * signs[worker], pushed[one], atol=1e-5)


def test_f_is_lowered_where_a_worker_has_few_neighbours_and_never_below_what_it_needs() -> None:
    assert made(mt.MoNNA(2), "ring")._rules[0].f == 1
    with pytest.raises(ValueError, match="belongs to one server"):
        made(mt.recommended(2))
    with pytest.raises(ValueError, match=r"needs the shape \(10, 10\)"):
        made(mt.MoNNA(2), np.ones((3, 3)))


def test_the_same_seed_gives_the_same_numbers() -> None:
    rule = mt.MixTailor([mt.MoNNA(2), mt.ClippedGossip(2)])
    first, second = (made(rule, "torus", Tailored(1.0), n=9, rounds=10).run() for _ in range(2))
    assert first.records == second.records
