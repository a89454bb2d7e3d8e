"""Audited rounds on Flower: who was asked, what was sent, and who sent nothing are all in the log."""

import json

import numpy as np
import pytest
from engines.flower.rounds import OWN, asked, honest, played, reply, trained
from flwr.app import MetricRecord, RecordDict

import mixtailor as mt
from mixtailor.engines.flower import RobustStrategy, digest_of_content
from mixtailor.mixing.audit import verify


def _without_a_reply(_messages, replies):
    return {node: sent for node, sent in replies.items() if node != 33}


def test_audited_rounds(tmp_path):
    """The trail holds each round, with the digests of what clients sent, and verifies."""
    pool = [mt.Krum(f=2), mt.Comed()]
    path = tmp_path / "log"
    places = []
    with mt.AuditTrail.start(path, pool) as trail:
        published = trail.commitment
        strategy = RobustStrategy(mt.MixTailor(pool, audit=trail))
        for server_round in (1, 2):
            _, metrics, _ = played(strategy, _without_a_reply, server_round=server_round)
            assert metrics["mixtailor-audit-round"] == server_round - 1
            places.append(metrics["mixtailor-rule"])
        receipt = trail.proof("11")
    report = verify(path, commitment=published, receipts=[receipt])
    assert report.ok and any("2 workers in all rounds entered as absent" in note for note in report.notes)
    drawn = [entry for entry in map(json.loads, path.read_text().splitlines()) if entry["kind"] == "draw"]
    assert [entry["index"] for entry in drawn] == places and [entry["absent"] for entry in drawn] == [["33"]] * 2


def test_receipts_cover_all_that_a_client_sent(tmp_path):
    """The arrays' bytes, the claimed examples and every metric; clients are told who was expected."""
    pool = [mt.Krum(f=2), mt.Comed()]
    with mt.AuditTrail.start(tmp_path / "log", pool) as trail:
        strategy = RobustStrategy(mt.MixTailor(pool, audit=trail), dropouts=1)
        messages = asked(strategy, OWN)
        replies = honest(messages, OWN)
        replies[22] = reply(messages[22], {**trained(OWN, 22), "extra": np.ones(3)})
        del replies[33]
        head = messages[11].content["config"]["mixtailor-audit-head"]
        strategy.aggregate_train(1, list(replies.values()))
        for node in (11, 22):
            receipt = trail.proof(str(node))
            assert receipt.holds(str(node), 0, digest=digest_of_content(replies[node].content), expectation=head)
        claims = RecordDict(dict(replies[11].content.items()))
        claims["metrics"] = MetricRecord({**replies[11].content["metrics"], "num-examples": 11})
        assert not trail.proof("11").holds("11", 0, digest=digest_of_content(claims))
        with pytest.raises(KeyError, match="'33' sent no row"):
            trail.proof("33")
    assert verify(tmp_path / "log").ok


def test_a_trail_of_another_pool_is_refused_at_once(tmp_path):
    trail = mt.AuditTrail.start(tmp_path / "log", [mt.Comed(), mt.Mean()])
    with trail, pytest.raises(ValueError, match="not the committed one"):
        RobustStrategy(mt.MixTailor([mt.Comed(), mt.Krum(f=2)], audit=trail))


def test_a_trail_that_ended_stops_the_run(tmp_path):
    """A full disk, say: going on would be draws that nobody can check."""
    trail = mt.AuditTrail.start(tmp_path / "log", [mt.Comed()])
    strategy = RobustStrategy(mt.MixTailor([mt.Comed()], audit=trail))
    messages = asked(strategy, OWN)
    trail.release()
    with pytest.raises(RuntimeError, match="was released"):
        strategy.aggregate_train(1, list(honest(messages, OWN).values()))
