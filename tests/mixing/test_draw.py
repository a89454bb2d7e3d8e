"""An attacker's view of the draw: a right source passes, wrong ones are noticed, and no two servers draw alike."""

import copy
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import mixtailor as mt
from campaigns.draws import Trial, campaign, trials
from mixtailor.intake import receive
from mixtailor.rules.request import Request

ARRIVAL = receive(np.zeros((12, 1)))


def test_draws_are_uniform_independent_and_unpredictable() -> None:
    """The campaign of a million draws, in short: a right source fails once in a billion runs of this test."""
    found = campaign(40_000, trials())
    assert found["failures"] == []
    assert sum(len(tests) for tests in found["p_values"].values()) == 33


def _modulo() -> Callable[[], int]:
    source = random.Random(1)
    return lambda: source.randrange(32) % 20


def _sticky() -> Callable[[], int]:
    source, last = random.Random(2), [0]

    def draw() -> int:
        if source.random() > 0.04:
            last[0] = source.randrange(20)
        return last[0]

    return draw


def _short() -> Callable[[], int]:
    source = random.Random(3)
    cycle = [source.randrange(20) for _ in range(400)]
    place = [0]

    def draw() -> int:
        place[0] += 1
        return cycle[place[0] % len(cycle)]

    return draw


def _fair_of_late() -> Callable[[], int]:
    """Never the same as five before."""
    source, before = random.Random(4), [0] * 5

    def draw() -> int:
        drawn = source.randrange(20)
        while drawn == before[0]:
            drawn = source.randrange(20)
        before.append(drawn)
        del before[0]
        return drawn

    return draw


@pytest.mark.parametrize(
    ("wrong", "noticed"),
    [(_modulo, "odds"), (_sticky, "lag 1"), (_short, "last 2"), (_fair_of_late, "lag 5")],
    ids=["modulo", "sticky", "short cycle", "avoids its past"],
)
def test_wrong_sources_are_noticed(wrong: Callable[[], Callable[[], int]], noticed: str) -> None:
    """The yardstick itself: four classical mistakes, each caught by the test meant for it, at the same level."""
    found = campaign(40_000, [Trial("wrong", wrong(), np.ones(20))])
    assert any(noticed in failure for failure in found["failures"]), found


def places(rule: mt.MixTailor, count: int = 40) -> list[int]:
    return [rule.plan(ARRIVAL, Request(), 12).facts["place"] for _ in range(count)]  # type: ignore[misc]  # places are integers


def _report(rule: mt.MixTailor, pipe: object) -> None:
    plans = [rule.plan(ARRIVAL, Request(), 12) for _ in range(40)]
    pipe.send([(plan.facts["place"], plan.key) for plan in plans])  # type: ignore[attr-defined]  # one end of a pipe


def test_servers_started_alike_draw_differently() -> None:
    """Two processes that get the same pickled mixture share neither draws nor the keys of pre-aggregation."""
    context = multiprocessing.get_context("spawn")
    rule = mt.MixTailor(mt.paper_pool(2))
    seen = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(target=_report, args=(rule, theirs))
        process.start()
        try:
            assert ours.poll(120)
            seen.append(ours.recv())
        finally:
            process.join(60)
            process.kill()
    assert [place for place, _ in seen[0]] != [place for place, _ in seen[1]]
    assert not {key for _, key in seen[0]} & {key for _, key in seen[1]}


def test_equal_environments_draw_differently() -> None:
    """Same program, same hash seed, same seeds everywhere, same imports in the same order: other draws."""
    script = """
import random; random.seed(0)
import numpy; numpy.random.seed(0)
import mixtailor as mt
rows = numpy.random.normal(size=(12, 3))
rule = mt.MixTailor(mt.paper_pool(2))
print([rule.aggregate(rows).facts["place"] for _ in range(20)])
"""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-c", script]
    seen = [
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=180, env=environment).stdout
        for _ in range(2)
    ]
    assert seen[0] != seen[1]


def test_copies_and_checkpoints_draw_differently() -> None:
    """A mixture keeps no state that a copy, a pickle or a call of seed() could bring back."""
    rule = mt.MixTailor(mt.paper_pool(2))
    twins = [rule, copy.copy(rule), copy.deepcopy(rule), pickle.loads(pickle.dumps(rule))]  # noqa: S301  # our own
    seen = set()
    for twin in twins:
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002  # the very thing that must not matter
        seen.add(tuple(places(twin)))
    assert len(seen) == 4


def test_threads_draw_differently() -> None:
    """Eight threads that start at once on one mixture: no two sequences alike, and no key twice."""
    rule = mt.MixTailor(mt.paper_pool(2))
    gate, found = threading.Barrier(8), []

    def work() -> None:
        gate.wait(60)
        plans = [rule.plan(ARRIVAL, Request(), 12) for _ in range(40)]
        found.append(([plan.facts["place"] for plan in plans], [plan.key for plan in plans]))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(drawn) for drawn, _ in found}) == 8
    assert len({key for _, keys in found for key in keys}) == 320


def test_what_arrives_has_no_say_in_the_draw() -> None:
    """The same rows again and again give all rules of the pool, and the draw is over before a row is read."""
    rows = np.random.default_rng(0).normal(size=(12, 3))
    rule = mt.MixTailor([mt.Krum(2), mt.Comed(), mt.TrimmedMean(2)])
    assert {rule.aggregate(rows).facts["place"] for _ in range(200)} == {0, 1, 2}
