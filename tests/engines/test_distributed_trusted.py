"""Trusted aggregators: real processes, workers that send anything, and one that is killed."""

import numpy as np
import pytest
import torch
from engines import trusted_ranks
from engines.processes import Processes, run
from torch.distributed import HashStore

import mixtailor as mt
from mixtailor.engines.distributed import Aggregator, Worker


def test_workers_may_send_anything(tmp_path):
    """The answer is the rule's on the sound rows, on every aggregator, whatever one worker sends."""
    found = run(trusted_ranks.hostile, 6, tmp_path, tmp_path, grouped=False)
    reasons = [
        "not finite",
        "of another length or type",
        "of another length or type",
        "no message of this protocol",
        "incomplete",
        "not there in time",
    ]
    for round, reason in enumerate(reasons):
        first, second = found[0][round], found[1][round]
        assert first["quarantined"] == second["quarantined"] == {3: reason}
        assert first["rule"] == second["rule"] and first["rule"] in map(repr, trusted_ranks.POOL)
        central = mt.Comed()(trusted_ranks.vectors(round)[:3])
        assert np.allclose(np.concatenate([first["update"], second["update"]]), central, atol=1e-6)
        for worker in found[2:]:
            assert np.array_equal(worker[round], np.concatenate([first["update"], second["update"]]))
    # Two faults where the rules withstand one: the round has no answer, and everybody knows.
    assert found[0][6]["update"] is None and set(found[0][6]["quarantined"]) == {2, 3}
    assert all(worker[6] is None for worker in found[2:])


def test_training_goes_on_when_a_worker_is_killed(tmp_path):
    """It is quarantined from the round of its death on, is waited for once only, and the model is learnt."""
    processes = Processes(trusted_ranks.killed, 5, tmp_path, tmp_path, grouped=False)
    found = processes.answers()
    assert processes.started[4].exitcode == -9 and found[4] is None
    dies = trusted_ranks.LAST_OF_KILLED
    assert [rows for rows, _ in found[0]] == [[]] * dies + [[3]] * (60 - dies)
    assert found[0][dies][1] >= trusted_ranks.PATIENCE
    assert all(seconds < trusted_ranks.PATIENCE for _, seconds in found[0][dies + 1 :])
    assert all(np.array_equal(model, found[1]) for model in found[1:4])
    assert np.allclose(found[1], [1.0, -2.0, 0.5, 0.3], atol=0.15)


def _pair(rule, workers, **options):
    """An aggregator and its workers in one process, for what needs no second."""
    store = HashStore()
    aggregator = Aggregator.open(store, rule, 3, workers=workers, **options)
    aggregator.timeout = 0.3  # what was sent before a step is read, however slow the machine is
    return aggregator, [Worker.join(store, number, timeout=60.0) for number in range(workers)]


def test_late_worker_gets_the_answer_and_catches_up():
    """Its row is quarantined in that round alone, and the answer of the round waits for it."""
    aggregator, workers = _pair(mt.Comed(), 3)
    for worker in workers[:2]:
        worker.send(torch.ones(3))
    result = aggregator.step()
    assert [(item.row, item.reason) for item in result.quarantined] == [(2, "not there in time")]
    workers[2].send(torch.zeros(3))
    assert torch.equal(workers[2].answer(torch.zeros(3)), torch.ones(3))
    for worker in workers[:2]:
        worker.answer(torch.zeros(3))
    for worker in workers:
        worker.send(torch.full((3,), 2.0))
    assert aggregator.step().quarantined == () and not aggregator.silent


def test_worker_that_fell_behind_is_told():
    aggregator, workers = _pair(mt.Comed(), 3, keep=1)
    for _ in range(2):
        for worker in workers[:2]:
            worker.send(torch.ones(3))
        aggregator.step()
        for worker in workers[:2]:
            worker.answer(torch.zeros(3))
    with pytest.raises(ValueError, match="at round 0, whose answer the aggregators no longer keep"):
        workers[2].answer(torch.zeros(3))


def test_silence_of_all_is_an_error_and_workers_do_not_wait():
    """Nobody is left hanging: the aggregator raises, a worker that asks for the round is told that it was skipped."""
    aggregator, workers = _pair(mt.Comed(), 3)
    with pytest.raises(ValueError, match=r"3 of 3 updates are not there in time"):
        aggregator.step()
    assert workers[0].exchange(torch.ones(3)) is None
    workers[0].timeout = 0.3
    with pytest.raises(TimeoutError, match="gave no answer for round 1"):
        workers[0].exchange(torch.ones(3))


def test_too_few_workers_are_refused():
    with pytest.raises(ValueError, match=r"needs at least 5 workers \(n >= 2f \+ 3\) and there are 3"):
        Aggregator.open(HashStore(), mt.Krum(1), 3, workers=3)


def test_model_of_another_size_is_named():
    aggregator, workers = _pair(mt.Comed(), 3)
    for worker in workers:
        worker.send(torch.ones(3))
    aggregator.step()
    with pytest.raises(ValueError, match="not of 4 coordinates"):
        workers[0].answer(torch.zeros(4))


def test_one_aggregator_keeps_an_audit_trail(tmp_path):
    """It has whole rows, so their digests are those that workers compute."""
    from mixtailor.mixing.audit import AuditTrail

    pool = [mt.Comed(), mt.TrimmedMean(1)]
    trail = AuditTrail.start(tmp_path / "run.audit", pool, run="test")
    aggregator, workers = _pair(mt.MixTailor(pool, audit=trail), 3)
    for number, worker in enumerate(workers):
        worker.send(torch.full((3,), float(number)))
    assert aggregator.step().update.tolist() == [1.0, 1.0, 1.0]
    assert trail.proof("0") is not None
