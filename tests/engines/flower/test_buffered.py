"""`BufferedServer`: clients with speeds of their own, and a server that does not wait."""

import numpy as np
import pytest
from engines.flower.rounds import NODES, OWN, SlowGrid, arrays_of, logged, moved, record, reply
from flwr.app import ConfigRecord, Error, Message

import mixtailor as mt
from mixtailor.engines.flower import Adam, BufferedServer

TARGET = 1.0
BYZANTINE = NODES[:2]


def towards(message, step=0.5):
    """What an honest client makes of the model that it was given: all real numbers nearer to the target."""
    own = arrays_of(message.content["arrays"])
    return {
        name: values + (step * (TARGET - values)).astype(values.dtype) if values.dtype.kind == "f" else values
        for name, values in own.items()
    }


def distance(arrays):
    return max(np.abs(arrays[name] - TARGET).max() for name in ("conv.weight", "fc.bias"))


def server(rule, when, **options):
    return BufferedServer(mt.Inbox(rule, oldest=20, workers=NODES), when=when, poll=0.001, **options)


@pytest.mark.parametrize("when", [mt.Fresh(5), mt.Kept(5)], ids=repr)
def test_learns_beside_a_straggler_and_two_attackers(when) -> None:
    """One client needs forty looks for a reply. The two that attack are fast, and are never more than two rows."""

    def answer(message):
        if message.metadata.dst_node_id in BYZANTINE:
            own = arrays_of(message.content["arrays"])
            return reply(message, {name: values * np.asarray(-50, values.dtype) for name, values in own.items()})
        return reply(message, towards(message))

    grid = SlowGrid(lambda node: 40 if node == NODES[-1] else 1 + node % 3, answer)
    found = server(mt.NNM(2) >> mt.GeometricMedian(), when).start(grid, record(OWN), 30)
    assert len(found.records) == 30 and found.records[-1]["version"] == 30
    assert distance(arrays_of(found.arrays)) < 0.05
    assert arrays_of(found.arrays)["norm.count"] == OWN["norm.count"], "whole numbers are not differences"
    assert set(found.faults) <= {str(NODES[-1])}, "its updates are too old, or used"


def test_a_reply_is_a_difference_to_the_model_that_its_client_was_given() -> None:
    """Not to the newest one: otherwise a stale reply would undo what was learnt since."""
    given = {}

    def answer(message):
        own = arrays_of(message.content["arrays"])
        given.setdefault(message.metadata.dst_node_id, []).append(own)
        return reply(message, {name: v + v.dtype.type(1) if v.dtype.kind == "f" else v for name, v in own.items()})

    grid = SlowGrid(lambda node: 1 + 5 * (node == NODES[0]), answer)
    found = server(mt.Mean(), mt.Fresh(4)).start(grid, record(OWN), 6)
    assert np.allclose(moved(arrays_of(found.arrays)), 6.0, atol=1e-4), "every difference is 1, stale or not"
    assert any(not np.array_equal(first["fc.bias"], OWN["fc.bias"]) for first in given[NODES[1]][1:])


def test_what_is_wrong_with_a_reply_is_its_clients_matter() -> None:
    """NaN, other arrays, an error and silence: the others go on, and the clients are named."""
    nan, other, broken, silent = NODES[:4]

    def answer(message):
        node, made = message.metadata.dst_node_id, towards(message)
        if node == nan:
            made["fc.bias"] = np.full(5, np.nan, np.float32)
        if node == other:
            del made["fc.bias"]
        if node == broken:
            return Message(Error(code=0, reason="client died\x1b[2J"), reply_to=message)
        return None if node == silent else reply(message, made)

    with logged() as lines:
        found = server(mt.TrimmedMean(1), mt.Fresh(4)).start(SlowGrid(lambda node: 1, answer), record(OWN), 8)
    assert distance(arrays_of(found.arrays)) < 0.05
    assert all(step["quarantined"] == [str(nan)] for step in found.records)
    assert set(found.faults) == {str(other), str(broken)}
    assert any("without" in line and "fc.bias" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_a_client_that_fails_at_once_is_not_sent_the_model_again_and_again() -> None:
    """An error costs a client nothing, and a model costs the server its size: one question for each version."""
    asked = []

    def answer(message):
        asked.append((message.metadata.dst_node_id, message.metadata.group_id))
        if message.metadata.dst_node_id == NODES[0]:
            return Message(Error(code=0, reason="at once"), reply_to=message)
        return reply(message, towards(message))

    grid = SlowGrid(lambda node: 1 if node == NODES[0] else 30, answer, nodes=[*NODES, 1000])
    found = server(mt.Comed(), mt.Fresh(5)).start(grid, record(OWN), 4)
    assert len(found.records) == 4 and len(asked) == len(set(asked))
    assert found.faults[str(NODES[0])] == 4 and found.faults["1000"] <= 4
    again = server(mt.Comed(), mt.Fresh(9), ttl=0.01)
    assert again.start(grid, record(OWN), 1, timeout=0.3).faults[str(NODES[0])] > 1, "after ttl seconds it is"


def picky(rows):
    if np.abs(rows).max() > 1e6:
        raise RuntimeError("too much")
    return np.median(rows, axis=0)


@pytest.mark.parametrize("when", [mt.Fresh(9), mt.Kept(9)], ids=repr)
def test_a_rule_that_fails_on_what_clients_sent_does_not_end_the_run(when) -> None:
    """The model stays as it was for that step, and the next one is made; mistakes of the server's own are raised."""

    def answer(message):
        made = towards(message)
        if message.metadata.dst_node_id == NODES[0] and message.metadata.group_id == "1":
            made["fc.bias"] = np.full(5, 1e9, np.float32)
        return reply(message, made)

    with logged() as lines:
        found = server(picky, when).start(SlowGrid(lambda node: 1 + node % 2, answer), record(OWN), 12, timeout=20.0)
    assert [step["skipped"] for step in found.records] == [version == 2 for version in range(1, 13)]
    assert distance(arrays_of(found.arrays)) < 0.05
    assert any("failed on what clients sent (RuntimeError: too much)" in line for line in lines)
    with pytest.raises(ZeroDivisionError):
        server(lambda rows: rows[0] / 0 if 1 // 0 else rows, mt.Fresh(9)).start(SlowGrid(None, None), record(OWN), 1)


def test_more_faults_than_f_cost_one_step() -> None:
    """Two clients send NaN once, f = 1: all are asked again, and training goes on."""

    def answer(message):
        made = towards(message)
        if message.metadata.dst_node_id in BYZANTINE and message.metadata.group_id == "1":
            made["fc.bias"] = np.full(5, np.nan, np.float32)
        return reply(message, made)

    with logged() as lines:
        found = server(mt.TrimmedMean(1), mt.Kept(9)).start(
            SlowGrid(lambda node: 1, answer), record(OWN), 12, timeout=20.0
        )
    assert [step["skipped"] for step in found.records] == [version == 2 for version in range(1, 13)]
    assert distance(arrays_of(found.arrays)) < 0.05
    assert any("stays as it was: 2 updates are bad of 9, and f = 1" in line for line in lines)


def test_a_flag_in_the_place_of_a_counter_does_not_end_a_run_on_disk(tmp_path) -> None:
    """Whole numbers and truth values alike are kept in files."""

    def answer(message):
        made = towards(message)
        if message.metadata.dst_node_id == NODES[0]:
            made["norm.count"] = np.array(True)
        return reply(message, made)

    inbox = mt.Inbox(mt.Comed(), folder=tmp_path / "inbox", workers=NODES)
    started = BufferedServer(inbox, when=mt.Fresh(9), poll=0.001)
    found = started.start(SlowGrid(lambda node: 1, answer), record(OWN), 3)
    assert len(found.records) == 3 and arrays_of(found.arrays)["norm.count"] == OWN["norm.count"]


def test_strangers_replies_are_left_out() -> None:
    """A reply in the name of another client, and one of a client that is not expected."""

    def answer(message):
        found = reply(message, towards(message))
        if message.metadata.dst_node_id == NODES[0]:
            found.metadata._src_node_id = NODES[1]
        return found

    grid = SlowGrid(lambda node: 1, answer, nodes=[*NODES, 1000])
    found = server(mt.Comed(), mt.Fresh(5)).start(grid, record(OWN), 4)
    assert set(found.faults) == {str(NODES[0]), "1000"}
    assert all(str(NODES[0]) not in step["workers"] for step in found.records)


def test_server_optimisers_and_evaluation() -> None:
    grid = SlowGrid(lambda node: 1, lambda message: reply(message, towards(message)))
    seen = []
    made = server(mt.recommended(f=2), mt.Fresh(9), server_optimizer=Adam(eta=0.1))
    found = made.start(grid, record(OWN), 5, evaluate_fn=lambda version, arrays: seen.append(version))
    assert seen == [1, 2, 3, 4, 5] and np.isfinite(moved(arrays_of(found.arrays))).all()


def test_ends_at_its_timeout_and_refuses_seeds() -> None:
    grid = SlowGrid(lambda node: 1, lambda message: None)
    found = server(mt.Comed(), mt.Fresh(5)).start(grid, record(OWN), 3, timeout=0.05)
    assert not found.records
    with pytest.raises(ValueError, match="holds a seed"):
        server(mt.Comed(), mt.Fresh(5)).start(grid, record(OWN), 1, train_config=ConfigRecord({"my-seed": 1}))


def test_a_memory_of_another_model_is_refused() -> None:
    """Every step would be one without an update."""
    memory = mt.recommended(f=2)
    memory.aggregate(np.eye(9, 5), workers=NODES)
    grid = SlowGrid(lambda node: 1, lambda message: reply(message, towards(message)))
    with pytest.raises(ValueError, match="updates with 5 coordinates, and these have 17"):
        server(memory, mt.Fresh(9)).start(grid, record(OWN), 2)


def _variance_after(steps, **options):
    """The running variance of a pixel that is always 0, as clients of different speeds measure it: times 0.1."""

    def answer(message):
        own = arrays_of(message.content["arrays"])
        if message.metadata.dst_node_id in BYZANTINE:
            return reply(message, {**own, "norm.running_var": np.full(3, -1e30, np.float32)})
        return reply(message, {"weight": own["weight"] + 1, "norm.running_var": 0.1 * own["norm.running_var"]})

    start = record({"weight": np.zeros(2, np.float32), "norm.running_var": np.ones(3, np.float32)})
    grid = SlowGrid(lambda node: 1 + 4 * (node in NODES[5:]), answer)
    found = server(mt.Comed(), mt.Fresh(5), **options).start(grid, start, steps)
    assert not any(step["skipped"] for step in found.records)
    return arrays_of(found.arrays)["norm.running_var"]


@pytest.mark.parametrize(
    "options", [{}, {"server_optimizer": Adam(eta=1.0)}, {"momentum": 0.9}], ids=["", "adam", "momentum"]
)
def test_stale_updates_leave_a_running_variance_positive(options) -> None:
    """Each is a value that some client measured, whatever the server's optimiser; two Byzantine clients do not matter.

    As differences, the variance is reduced by the slow clients once more, and is negative: a model that learns and
    evaluates to NaN.
    """
    for steps in range(1, 8):
        found = _variance_after(steps, **options)
        assert found.dtype == np.float32 and (found > 0).all() and (found <= 1).all()
    assert min(_variance_after(steps, statistics=()).min() for steps in range(1, 8)) < 0


def test_a_running_variance_that_is_not_finite_is_left_out() -> None:
    """By name, as every reply of no use."""
    values = {"weight": np.zeros(2, np.float32), "norm.running_var": np.ones(3, np.float32)}

    def answer(message):
        broken = message.metadata.dst_node_id == NODES[0]
        return reply(message, {**values, "norm.running_var": np.full(3, np.nan, np.float32)} if broken else values)

    with logged() as lines:
        found = server(mt.Comed(), mt.Fresh(8)).start(SlowGrid(lambda node: 1, answer), record(values), 1)
    assert set(found.faults) == {str(NODES[0])}
    assert any("not finite (norm.running_var)" in line for line in lines)
    with pytest.raises(ValueError, match="statistics= as a collection of names"):
        server(mt.Comed(), mt.Fresh(8), statistics="running_var")
