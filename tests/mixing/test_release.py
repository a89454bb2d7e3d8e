"""`release_after`: the moment of a result does not show which rule was drawn."""

import pickle
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.rules import _release

ROWS = np.random.default_rng(0).normal(size=(12, 5))


@dataclass
class Clock:
    """Time that passes only where the test says so."""

    now: float = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += 0.6 * seconds if seconds > 1e-3 else seconds  # a sleep that may end early

    def rule(self, seconds: float) -> Any:
        def slow(rows: Any) -> Any:
            self.now += seconds
            return rows[0]

        return slow


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(_release, "time", made)
    return made


def test_fast_and_slow_rules_answer_at_the_same_moment(clock: Clock) -> None:
    """Whichever is drawn, by `aggregate` and by a plain call."""
    pool = mt.MixTailor([clock.rule(seconds) for seconds in (0.01, 0.3, 0.7, 0.99)], release_after=1.0)
    for call in (pool, pool.aggregate):
        drawn, moments = set(), set()
        for _ in range(60):
            started = clock.now
            answer = call(ROWS)
            moments.add(round(clock.now - started, 9))
            drawn.add(getattr(answer, "rule", None))
        assert moments == {1.0}
    assert len(drawn) == 4


def test_without_it_nothing_is_held(clock: Clock) -> None:
    started = clock.now
    mt.MixTailor([clock.rule(0.25)])(ROWS)
    assert clock.now - started == 0.25
    mt.Krum(2)(ROWS)
    assert clock.now - started == 0.25


def test_what_takes_longer_waits_for_the_next_period_and_says_so(clock: Clock) -> None:
    for spent, every, moment in ((2.3, 1.0, 3.0), (0.7, 0.5, 1.0)):
        started = clock.now
        sentence = f"took {spent} s, longer than release_after = {every:g} s, and is released after {moment:g} s"
        with pytest.warns(RuntimeWarning, match=sentence):
            mt.MixTailor([clock.rule(spent)], release_after=every)(ROWS)
        assert clock.now - started == pytest.approx(moment)


def test_an_error_is_held_back_too(clock: Clock) -> None:
    """Which rule failed must not be told by when; a keyboard's interruption is not held."""

    def fails(rows: Any) -> Any:
        clock.now += 0.2
        raise ArithmeticError("no")

    def stopped(rows: Any) -> Any:
        clock.now += 0.2
        raise KeyboardInterrupt

    started = clock.now
    with pytest.raises(ArithmeticError):
        mt.MixTailor([fails], release_after=1.0)(ROWS)
    assert clock.now - started == pytest.approx(1.0)
    started = clock.now
    with pytest.raises(mt.FaultError):
        mt.MixTailor([mt.Krum(1)], release_after=1.0)(np.full((12, 5), np.nan))
    assert clock.now - started == pytest.approx(1.0)
    started = clock.now
    with pytest.raises(KeyboardInterrupt):
        mt.MixTailor([stopped], release_after=1.0)(ROWS)
    assert clock.now - started == pytest.approx(0.2)


def test_it_holds_wherever_the_mixture_is_a_part(clock: Clock) -> None:
    """Behind a pre-aggregation, in a subsample, in another mixture: the longest that a part asks for."""
    inner = mt.MixTailor([mt.Comed()], release_after=1.0)
    wholes = [
        mt.NNM(2) >> inner,
        mt.Subsampled(mt.MixTailor([mt.Krum(2)], release_after=1.0), k=11),
        mt.MixTailor([mt.Comed(), mt.NNM(2) >> inner], release_after=0.5),
        mt.MixTailor([inner]),
    ]
    for whole in wholes:
        started = clock.now
        whole(ROWS)
        assert clock.now - started == pytest.approx(1.0), whole


def test_it_survives_copies() -> None:
    pool = mt.MixTailor([mt.Krum(2), mt.Comed()], release_after=0.5)
    assert pool.with_f(1).release_after == 0.5
    assert pickle.loads(pickle.dumps(pool)).release_after == 0.5  # noqa: S301  # our own bytes
    assert repr(pool) == "MixTailor([Krum(f=2), Comed()], release_after=0.5)"
    assert pool != mt.MixTailor([mt.Krum(2), mt.Comed()])


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="MixTailor needs release_after > 0"):
        mt.MixTailor([mt.Comed()], release_after=wrong)
    with pytest.raises(TypeError, match="release_after as a number"):
        mt.MixTailor([mt.Comed()], release_after="1")  # type: ignore[arg-type]  # wrong on purpose


def test_by_the_real_clock() -> None:
    """No earlier than asked; how much later is the machine's business."""
    pool = mt.MixTailor([mt.Comed()], release_after=0.05)
    started = time.monotonic()
    pool(ROWS)
    assert time.monotonic() - started >= 0.05
