"""What one hostile client does to Flower's own robust strategies, and not to ours: the reasons for this adapter."""

import numpy as np
import pytest
from engines.flower.rounds import (
    NODES,
    OWN,
    arrays_of,
    asked,
    differences,
    honest,
    moved,
    played,
    record,
    reply,
    trained,
)
from flwr.app import Array
from flwr.serverapp.exception import AggregationError, InconsistentMessageReplies
from flwr.serverapp.strategy import Bulyan, FedMedian, FedTrimmedAvg, Krum, MultiKrum
from flwr.serverapp.strategy.multikrum import compute_distances

import mixtailor as mt
from mixtailor.engines.flower import RobustStrategy, malformed_mod

THEIRS = [Krum(num_malicious_nodes=1), MultiKrum(num_malicious_nodes=1, num_nodes_to_select=3)]
THEIRS += [Bulyan(num_malicious_nodes=1), FedMedian(), FedTrimmedAvg(beta=0.2)]


def _theirs(strategy, spoil):
    strategy.min_train_nodes = strategy.min_available_nodes = len(NODES)
    own = {name: values for name, values in OWN.items() if values.dtype.kind == "f"}
    messages = asked(strategy, own)
    replies = spoil(messages, honest(messages, own))
    arrays, _ = strategy.aggregate_train(1, list(replies.values()))
    return arrays_of(arrays), replies, own


def _broken(fault):
    def spoil(messages, replies):
        replies[33] = malformed_mod(fault)(messages[33], None, lambda _message, _context: replies[33])
        return replies

    return spoil


@pytest.mark.parametrize("theirs", THEIRS, ids=lambda strategy: type(strategy).__name__)
@pytest.mark.parametrize("fault", ["extra", "shape"])
def test_an_extra_key_or_a_wrong_shape_stops_their_run(theirs, fault):
    """The exception leaves `aggregate_train`, and with it the run ends. Ours goes on."""
    with pytest.raises((InconsistentMessageReplies, AggregationError, ValueError)):
        _theirs(theirs, _broken(fault))
    _, metrics, _ = played(RobustStrategy(mt.Krum(f=1)), _broken(fault))
    assert metrics["mixtailor-quarantined"] == [33] and metrics["mixtailor-skipped"] == 0


def test_one_nan_client_makes_fedmedian_nan():
    arrays, _, _ = _theirs(FedMedian(), _broken("nan"))
    assert np.isnan(arrays["conv.weight"]).all()
    ours, metrics, _ = played(RobustStrategy(mt.Comed()), _broken("nan"))
    assert np.isfinite(moved(ours)).all() and metrics["mixtailor-quarantined"] == [33]


def test_a_claim_of_examples_captures_multikrum():
    """A selected client that claims 1e12 examples is the whole answer of theirs, and quarantined by ours."""

    def spoil(messages, replies):
        mean = {name: np.mean([trained(OWN, node)[name] for node in NODES[1:]], axis=0) for name in ("fc.bias",)}
        sent = arrays_of(replies[33].content["arrays"])
        sent["fc.bias"] = (mean["fc.bias"] + 0.01).astype(np.float32)
        replies[33] = reply(messages[33], sent, **{"num-examples": 1e12})
        return replies

    arrays, replies, _ = _theirs(MultiKrum(num_malicious_nodes=1, num_nodes_to_select=8), spoil)
    captured = arrays_of(replies[33].content["arrays"])
    np.testing.assert_allclose(arrays["fc.bias"], captured["fc.bias"], rtol=1e-6)
    ours, metrics, replies = played(RobustStrategy(mt.MultiKrum(f=1)), spoil)
    assert metrics["mixtailor-quarantined"] == [33]
    assert np.abs(ours["fc.bias"] - captured["fc.bias"]).max() > 1e-3


def test_a_float_counter_comes_back_from_their_average():
    """Flower's mean turns a counter of steps into a float; ours keeps the integer."""
    own = {"w": np.zeros(3, np.float32), "steps": np.array([7, 9], np.int64)}
    theirs = Krum(num_malicious_nodes=1)
    theirs.min_train_nodes = theirs.min_available_nodes = len(NODES)
    messages = asked(theirs, own)
    arrays, _ = theirs.aggregate_train(1, list(honest(messages, own).values()))
    assert arrays["steps"].dtype == "float64"
    ours, _, _ = played(RobustStrategy(mt.Krum(f=1)), own=own)
    assert ours["steps"].dtype == np.int64 and ours["steps"].tolist() == [8, 10]


def test_their_distances_come_from_norms():
    """Where weights are large, float32 norms swallow the distances between clients: no digit is right. Ours are."""
    rng = np.random.default_rng(0)
    own = {"w": np.full(1000, 1e6, np.float32)}
    rows = {
        node: (own["w"] + (1 + place) * rng.standard_normal(1000)).astype(np.float32)
        for place, node in enumerate(NODES)
    }
    apart = np.array([[np.square(a.astype(np.float64) - b).sum() for a in rows.values()] for b in rows.values()])
    others = ~np.eye(len(NODES), dtype=bool)
    theirs = compute_distances([record({"w": row}) for row in rows.values()])
    assert (np.abs(theirs - apart)[others] > 0.5 * apart[others]).all()

    def spoil(_messages, replies):
        for node in NODES:
            replies[node].content["arrays"]["w"] = Array(rows[node])
        return replies

    _, metrics, replies = played(RobustStrategy(mt.Krum(f=1)), spoil, own=own)
    exact = mt.Krum(f=1).aggregate(differences(replies, own))
    assert metrics["mixtailor-selected"] == [list(replies)[exact.selected[0]]]
