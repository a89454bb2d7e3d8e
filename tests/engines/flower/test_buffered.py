"""Flower without rounds: clients of different speeds, stale, silent, broken and Byzantine ones, on a grid in memory."""

import itertools

import numpy as np
import pytest
from engines.flower.rounds import NODES, LocalGrid, arrays_of, flat, logged, model, record, reply, trained

import mixtailor as mt
from mixtailor.engines.flower import run_buffered

OWN = model()
FAST, SLOW = NODES[:6], NODES[6:]


class Delayed(LocalGrid):
    """Each client's reply is there after a number of looks; `answer` makes it when it is asked."""

    def __init__(self, answer, looks=lambda node: 1):
        super().__init__(answer=answer)
        self.looks, self.waiting, self.names = looks, {}, map(str, itertools.count())
        self.asked = []

    def push_messages(self, messages):
        names = []
        for message in messages:
            name = next(self.names)
            message.metadata.__dict__["_message_id"] = name
            node = message.metadata.dst_node_id
            self.asked.append((node, message.content["config"]["server-round"]))
            self.waiting[name] = [self.looks(node), self.answer(message)]
            names.append(name)
        return names

    def pull_messages(self, message_ids):
        for name in message_ids:
            self.waiting[name][0] -= 1
        ready = [name for name in message_ids if self.waiting[name][0] <= 0 and self.waiting[name][1] is not None]
        return [self.waiting.pop(name)[1] for name in ready]


def honest(message):
    own = arrays_of(message.content["arrays"])
    return reply(message, trained(own, message.metadata.dst_node_id))


def run(grid, rule=None, k=6, versions=3, **options):
    inbox = mt.Inbox(rule or mt.Comed(), oldest=options.pop("oldest", 5))
    with logged() as lines:
        found = run_buffered(
            grid, inbox, record(OWN), when=mt.Fresh(k), versions=versions, pause=1e-3, timeout=0.5, **options
        )
    return arrays_of(found), inbox, lines


def test_versions_do_not_wait_for_slow_clients():
    """Six fast clients make versions; three slow ones reply to a model that is four versions old, and count as stale."""
    grid = Delayed(honest, looks=lambda node: 5 if node in SLOW else 1)
    found, inbox, _ = run(grid, versions=7)
    assert inbox.version == 7
    slow = [version for node, version in grid.asked if node == SLOW[0]]
    fast = [version for node, version in grid.asked if node == FAST[0]]
    assert fast == list(range(7)) and slow == [0, 5]
    assert found["norm.count"] == OWN["norm.count"] + 7 and found["norm.count"].dtype == np.int64
    assert found["norm.flags"].dtype == bool and found["conv.weight"].shape == (3, 4)


def test_the_first_version_is_the_rule_on_the_differences():
    found, _, _ = run(Delayed(honest), k=9, versions=1)
    rows = [flat(trained(OWN, node), OWN).astype(np.float64) - flat(OWN, OWN) for node in NODES]
    np.testing.assert_allclose(flat(found, OWN) - flat(OWN, OWN), np.median(rows, axis=0), atol=1e-6)


@pytest.mark.parametrize("rule", [mt.recommended(2), mt.NNM(2) >> mt.Krum(2)])
def test_fast_byzantine_clients_do_not_move_the_model(rule):
    """They reply at once, far away, with claims of another version: one row each, the version is the server's."""

    def answer(message):
        if message.metadata.dst_node_id in FAST[:2]:
            far = trained(arrays_of(message.content["arrays"]), 1, step=1e4)
            return reply(message, far, version=10**6)
        return honest(message)

    found, inbox, _ = run(Delayed(answer, looks=lambda node: 1 if node in FAST[:2] else 3), rule, k=7)
    assert inbox.version == 3 and abs(flat(found, OWN) - flat(OWN, OWN)).max() < 3


def test_broken_silent_and_strange_replies_take_nobodys_place():
    """An error, another shape, NaN, silence, and a reply that names another client: named in the log, not counted."""

    def answer(message):
        node = message.metadata.dst_node_id
        own = arrays_of(message.content["arrays"])
        if node == NODES[0]:
            return None
        if node == NODES[1]:
            return reply(message, {**own, "fc.bias": np.zeros(4, np.float32)})
        if node == NODES[2]:
            found = honest(message)
            found.metadata.__dict__["_src_node_id"] = NODES[5]
            return found
        return honest(message)

    _, inbox, lines = run(Delayed(answer), k=6, versions=2)
    said = "\n".join(lines)
    assert inbox.version == 2 and not {str(NODES[0]), str(NODES[1]), str(NODES[2])} & set(inbox)
    assert f"node {NODES[1]} is left out: of shape (4,)" in said
    assert f"node {NODES[2]} is left out" in said


def test_nan_is_quarantined_by_the_rule():
    def answer(message):
        if message.metadata.dst_node_id == NODES[3]:
            own = arrays_of(message.content["arrays"])
            return reply(message, {**own, "fc.bias": np.full(5, np.nan, np.float32)})
        return honest(message)

    found, inbox, lines = run(Delayed(answer), mt.TrimmedMean(2), k=9, versions=1)
    assert inbox.version == 1 and np.isfinite(flat(found, OWN)).all()
    assert any(f"node {NODES[3]} is quarantined: not finite" in line for line in lines)


def test_it_ends_where_too_few_reply():
    """With the model that there is, and a sentence."""
    silent = Delayed(lambda message: honest(message) if message.metadata.dst_node_id in FAST[:3] else None)
    found, inbox, lines = run(silent, k=6)
    assert inbox.version == 0 and np.array_equal(flat(found, OWN), flat(OWN, OWN))
    assert any("No new version within 0.5 s" in line for line in lines)


def test_mistakes_are_refused():
    with pytest.raises(ValueError, match="waits for 3"):
        run(Delayed(honest), mt.Krum(2), k=3)
    with pytest.raises(ValueError, match="seed"):
        run(Delayed(honest), train_config={"seed": 3})
