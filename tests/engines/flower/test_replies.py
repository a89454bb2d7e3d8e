"""Whatever clients reply, the round goes on with the rest, or the model stays as it was."""

import numpy as np
import pytest
from engines.flower.rounds import (
    NODES,
    OWN,
    LocalGrid,
    asked,
    differences,
    honest,
    logged,
    moved,
    played,
    record,
    reply,
    trained,
)
from flwr.app import Array, Error, Message, RecordDict

import mixtailor as mt
from mixtailor.engines.flower import FAULTS, RobustStrategy, malformed_mod
from mixtailor.engines.flower.arrays import view, written


def _broken(fault):
    """One reply broken by the mod that users have for it."""
    mod = malformed_mod(fault)

    def spoil(messages, replies):
        replies[33] = mod(messages[33], None, lambda _message, _context: replies[33])
        return replies

    return spoil


def _swapped(name, array):
    def spoil(messages, replies):
        replies[33].content["arrays"][name] = array
        return replies

    return spoil


BAD = {
    **{fault: _broken(fault) for fault in FAULTS},
    "infinity": _swapped("fc.bias", written(np.array([0, 1, np.inf, 2, 3], np.float32))),
    "text": _swapped("fc.bias", Array(np.array(["a", "b", "c", "d", "e"]))),
    "complex": _swapped("fc.bias", Array(np.zeros(5, np.complex64))),
    "whole numbers": _swapped("fc.bias", Array(np.zeros(5, np.int64))),
    "floats for counters": _swapped("norm.count", Array(np.array(8.0))),
    "noise": _swapped("fc.bias", Array("float32", (5,), "numpy.ndarray", b"\x00\xffnot an array at all" * 9)),
    "no bytes": _swapped("fc.bias", Array("float32", (5,), "numpy.ndarray", b"")),
    "cut short": _swapped("fc.bias", Array("float32", (5,), "numpy.ndarray", Array(OWN["fc.bias"]).data[:-4])),
    "a pickle": _swapped(
        "fc.bias",
        Array("float32", (5,), "numpy.ndarray", Array(OWN["fc.bias"]).data.replace(b"'<f4'", b"'|O' ")),
    ),
    "a promise of terabytes": _swapped(
        "fc.bias",
        Array("float32", (5,), "numpy.ndarray", Array(OWN["fc.bias"]).data.replace(b"(5,), } ", b"(5**9,)}")),
    ),
    "a lie beside the bytes": _swapped("fc.bias", Array("float32", (5,), "numpy.ndarray", Array(np.zeros(9)).data)),
    "two records": lambda messages, replies: (
        replies[33].content.__setitem__("more", record({"x": np.zeros(2)})),
        replies,
    )[1],
    "two replies": lambda messages, replies: {**replies, "again": replies[33]},
    "no reply": lambda messages, replies: {node: sent for node, sent in replies.items() if node != 33},
    "negative examples": lambda messages, replies: {**replies, 33: reply(messages[33], OWN, **{"num-examples": -1})},
    "a list of examples": lambda messages, replies: {**replies, 33: reply(messages[33], OWN, **{"num-examples": [1]})},
}


@pytest.mark.parametrize("rule", [mt.Krum(f=2), mt.MixTailor([mt.Comed(), mt.TrimmedMean(f=2)])], ids=repr)
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_reply_is_quarantined_and_named(kind, rule):
    """The round goes on with the others, and the answer is theirs."""
    with logged() as lines:
        arrays, metrics, replies = played(RobustStrategy(rule), BAD[kind])
    assert metrics["mixtailor-quarantined"] == [33], lines
    assert any("node 33 is quarantined: " in line for line in lines)
    assert metrics["mixtailor-skipped"] == 0
    rows = differences({node: sent for node, sent in replies.items() if node not in (33, "again")}, OWN)
    assert np.isfinite(moved(arrays)).all()
    assert (np.abs(moved(arrays)) <= np.abs(rows).max(axis=0) + 1e-6).all()


@pytest.mark.parametrize("kind", BAD)
def test_the_model_stays_as_it_was_where_more_than_f_are_bad(kind):
    """f = 0: one bad reply is too many. The record that was sent comes back, and the log says why."""
    strategy = RobustStrategy(mt.Krum(f=0), momentum=0.9)
    messages = asked(strategy, OWN)
    sent = next(iter(messages.values())).content["arrays"]
    with logged() as lines:
        arrays, metrics = strategy.aggregate_train(1, list(BAD[kind](messages, honest(messages, OWN)).values()))
    assert arrays is sent
    assert metrics["mixtailor-skipped"] == 1 and metrics["mixtailor-rule"] == -1
    assert any("the model stays as it was: 1 reply is bad of 9, and f = 0" in line for line in lines)
    assert strategy.steps.moments == {}


def test_two_of_nine_may_be_bad_and_three_may_not():
    def spoil(count):
        def spoiled(messages, replies):
            for node in NODES[:count]:
                replies[node] = Message(RecordDict(), reply_to=messages[node])
            return replies

        return spoiled

    assert played(RobustStrategy(mt.Krum(f=2)), spoil(2))[1]["mixtailor-skipped"] == 0
    assert played(RobustStrategy(mt.Krum(f=2)), spoil(3))[1]["mixtailor-skipped"] == 1
    assert played(RobustStrategy(mt.Krum(f=2)), spoil(9))[1]["mixtailor-skipped"] == 1


def test_dropouts_are_excused():
    """Clients that are silent or in error do not count among the f, as many as the user says."""

    def spoil(messages, replies):
        replies[11] = Message(Error(code=3, reason="gone\n\x1b[31mto lunch"), reply_to=messages[11])
        del replies[22]
        return {**replies, 33: Message(RecordDict(), reply_to=messages[33])}

    with logged() as lines:
        _, metrics, _ = played(RobustStrategy(mt.Krum(f=1), dropouts=2), spoil)
    assert metrics["mixtailor-skipped"] == 0 and metrics["mixtailor-quarantined"] == [33]
    assert sorted(metrics["mixtailor-absent"]) == [11, 22] and metrics["mixtailor-received"] == 7
    assert any("excused without a reply: nodes 22, 11" in line for line in lines)
    with logged() as lines:
        assert played(RobustStrategy(mt.Krum(f=1), dropouts=1), spoil)[1]["mixtailor-skipped"] == 1
    assert any("node 11 is quarantined: an error (code 3: gone ?[31mto lunch)" in line for line in lines)


def test_too_few_clients_answer():
    """Excused clients are no rows: what is left must meet the requirement with f in full."""
    keep = NODES[:4]
    with logged() as lines:
        _, metrics, _ = played(
            RobustStrategy(mt.Krum(f=1), dropouts=5, min_train_nodes=9, min_available_nodes=9),
            lambda _, replies: {node: replies[node] for node in keep},
        )
    assert metrics["mixtailor-skipped"] == 1
    assert any("Krum(f=1) needs at least 5 replies (n >= 2f + 3) and got 4" in line for line in lines)


def test_a_client_cannot_answer_for_another():
    """On a network, messages have ids. A reply in another's name is left out, and its sender is the one without."""

    def spoil(messages, _replies):
        for message in messages.values():
            message.metadata.__dict__["_message_id"] = f"question {message.metadata.dst_node_id}"
        replies = {node: reply(messages[node], trained(OWN, node)) for node in messages}
        replies[33].metadata.__dict__["_src_node_id"] = 44
        return replies

    with logged() as lines:
        _, metrics, _ = played(RobustStrategy(mt.Krum(f=2)), spoil)
    assert metrics["mixtailor-quarantined"] == [33] == metrics["mixtailor-absent"], lines


def test_the_superlink_answers_for_a_client_that_is_gone():
    """Its error has the SuperLink's own id, and tells by the question that it answers who is meant."""

    def spoil(messages, _replies):
        for message in messages.values():
            message.metadata.__dict__["_message_id"] = f"question {message.metadata.dst_node_id}"
        replies = {node: reply(messages[node], trained(OWN, node)) for node in messages}
        replies[33] = Message(Error(code=3, reason="gone"), reply_to=messages[33])
        replies[33].metadata.__dict__["_src_node_id"] = 1
        return replies

    with logged() as lines:
        _, metrics, _ = played(RobustStrategy(mt.Krum(f=2)), spoil)
    assert metrics["mixtailor-quarantined"] == [33]
    assert any("node 33 is quarantined: an error (code 3: gone)" in line for line in lines)


def test_replies_that_nobody_asked_for_are_left_out():
    other = RobustStrategy(mt.Mean(), min_train_nodes=1, min_available_nodes=1)
    stray = honest(asked(other, OWN, grid=LocalGrid([5])), OWN)
    with logged() as lines:
        _, metrics, _ = played(RobustStrategy(mt.Krum(f=2)), lambda _, replies: {**replies, **stray})
    assert metrics["mixtailor-received"] == 9 and metrics["mixtailor-quarantined"] == []
    assert any("no asked client sent is left out (node 5" in line for line in lines)


def test_arrays_are_read_in_place():
    """Rows are views of the bytes that came in, in either order, and what is written reads back."""
    values = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    array = Array(values)
    found = view(array)
    assert not found.flags.writeable and np.shares_memory(found, np.frombuffer(array.data, np.uint8))
    np.testing.assert_array_equal(view(Array(np.asfortranarray(values))), values)
    for one in (values, values.T, np.array(3), np.zeros((0, 4)), np.zeros(3, ">f8"), np.zeros((1,) * 30)):
        back = written(one)
        np.testing.assert_array_equal(view(back), one)
        np.testing.assert_array_equal(back.numpy(), one)
        assert view(back).dtype == one.dtype and back.shape == one.shape


def test_other_orders_and_types_of_the_same_numbers_are_read():
    """Columns first, double, half and swapped bytes are no fault: the model's type is what counts."""

    def spoil(messages, replies):
        kinds = [np.float64, np.float16, ">f4", np.longdouble]
        for node, kind in zip(NODES, kinds, strict=False):
            own = {n: v.astype(kind) if v.dtype.kind == "f" else v for n, v in trained(OWN, node).items()}
            replies[node] = reply(messages[node], own)
        replies[99].content["arrays"]["conv.weight"] = Array(np.asfortranarray(trained(OWN, 99)["conv.weight"]))
        return replies

    arrays, metrics, replies = played(RobustStrategy(mt.TrimmedMean(f=2)), spoil)
    assert metrics["mixtailor-quarantined"] == []
    np.testing.assert_allclose(moved(arrays), mt.TrimmedMean(f=2)(differences(replies, OWN)), atol=1e-6)
