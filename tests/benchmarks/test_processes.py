"""Claims that are measured in other processes: peers, memory, first calls, threads."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import against_peers, first_call, peak_memory, threads
from benchmarks._findings import Finding
from benchmarks._measured import measure
from benchmarks._pipe import TaskError, Worker
from benchmarks._plans import Size, tiny
from benchmarks._table import tasks_of_table

PEER = "tests.benchmarks.a_peer"


def test_a_peer_is_timed_between_our_calls_and_its_answers_are_compared() -> None:
    size = Size(12, 640)
    with Worker(PEER, Path(sys.executable)) as worker:
        answers = {each.what: each for each in against_peers.agreement(worker, size)}
        assert answers["Comed @ Plain (numpy)"].met is True
        assert answers["TrimmedMean @ Plain (numpy)"].limit is None
        assert answers["TrimmedMean @ Plain (numpy)"].value > 0.01
        assert "no such rule" in answers["Krum @ Plain (numpy)"].note
        assert against_peers.hopeless(answers.values()) == set()
        rivals, facts = against_peers.contenders(worker, size)
        assert {rival.key for rival in rivals} == {"peer/Comed @ Plain (numpy)", "peer/TrimmedMean @ Plain (numpy)"}
        assert "no such rule" in facts["errors"]["Krum @ Plain (numpy)"]
        plan = replace(tiny(), table=size)
        norms = {"far": ["Krum p=1"], "tiny": ["Krum p=1"]}
        measured = measure(plan, size, tasks_of_table(), extra=norms, peers=rivals)  # type: ignore[arg-type]  # a stand-in
        found = {each.what: each for each in against_peers.findings(measured, facts["remarks"])}
    assert set(found) == {"Comed", "TrimmedMean"}
    assert found["Comed"].facts["peer"] == "Plain (numpy)"
    assert found["TrimmedMean"].note == "nothing is trimmed"


def test_a_worker_outlives_a_task_that_fails() -> None:
    with Worker(PEER, Path(sys.executable)) as worker:
        worker.ask("data", n=12, d=64, f=2)
        with pytest.raises(TaskError, match="no such rule"):
            worker.ask("time", task="Krum @ Plain (numpy)", calls=1)
        assert len(worker.ask("time", task="Comed @ Plain (numpy)", calls=3)["seconds"]) == 3


def test_memory_is_measured_for_every_row_that_shows_it() -> None:
    found = {each.what: each for each in peak_memory.findings(Size(12, 1 << 16))}
    assert set(found) == set(peak_memory.TASKS)
    assert all(each.value >= 0 for each in found.values())


def test_first_calls_and_imports_are_measured() -> None:
    found = {each.what: each for each in first_call.findings(["Comed"], repeats=1)}
    assert set(found) == {
        "import mixtailor",
        "Comed, cold",
        "Comed, warm",
        "Comed, a new n",
    }
    assert found["Comed, cold"].value > found["Comed, warm"].value


def test_threads_are_compared_and_answers_checked() -> None:
    found = {each.what: each for each in threads.findings(tiny())}
    assert found["wrong answers from four threads at once"].met is True
    assert found["wrong answers after a fork"].met is True
    assert found["Comed, one thread over two"].value > 0


def test_hopeless_peers_are_those_ten_times_slower_than_another_at_the_same_rule() -> None:
    seconds = {"Krum @ A": 1.0, "Krum @ B": 9.0, "Krum @ C": 11.0, "Comed @ C": 50.0}
    answers = [
        Finding("agreement", task, "", 0.0, "spreads", facts={"seconds": each}) for task, each in seconds.items()
    ]
    assert against_peers.hopeless(answers) == {"Krum @ C"}
