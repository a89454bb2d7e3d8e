"""The statistics of the harness, by hand."""

import time

import pytest

from benchmarks._harness import Contender, Timing, interleave, local, quartiles, ratio, timed


def test_ratios_are_formed_within_rounds() -> None:
    """A machine that slows down by ten for one round changes no ratio."""
    own, mean = Timing([2.0, 20.0, 2.0]), Timing([1.0, 10.0, 1.0])
    assert ratio(own, mean) == (2.0, 2.0, 2.0)


def test_a_round_that_one_sat_out_has_no_ratio() -> None:
    assert ratio(Timing([6.0, None, 9.0]), Timing([2.0, 1.0, 3.0]))[0] == 3.0
    with pytest.raises(ValueError, match="both had a turn"):
        ratio(Timing([None]), Timing([1.0]))


def test_quartiles_of_five_and_of_one() -> None:
    assert quartiles([5.0, 1.0, 4.0, 2.0, 3.0]) == (2.0, 4.0)
    assert quartiles([7.0]) == (7.0, 7.0)


def test_timings_add_subtract_and_scale_round_by_round() -> None:
    one, other = Timing([3.0, None, 5.0]), Timing([1.0, 1.0, 2.0])
    assert (one + other).samples == [4.0, None, 7.0]
    assert (one - other).samples == [2.0, None, 3.0]
    assert (one * 2.0).samples == [6.0, None, 10.0]
    assert one.median == 4.0


def test_the_first_calls_are_not_counted() -> None:
    """What compiles on its first call is not slow."""
    calls = []

    def first_is_slow() -> None:
        calls.append(None)
        if len(calls) == 1:
            time.sleep(0.05)

    timing = interleave([local("one", first_is_slow)], rounds=3, burst=0.0)["one"]
    assert len(timing.known) == timing.calls == 3
    assert len(calls) == 3 + 3 * 2
    assert max(timing.known) < 0.05


def test_every_contender_has_a_turn_in_every_round_in_changing_order() -> None:
    turns = []

    def contender(name: str) -> Contender:
        def measure(calls: int) -> list[float]:
            turns.append(name)
            return [1e-3] * calls

        return Contender(name, measure)

    timings = interleave([contender(name) for name in "abcd"], rounds=8, burst=0.0)
    assert {name: len(timing.known) for name, timing in timings.items()} == dict.fromkeys("abcd", 8)
    rounds = [tuple(turns[8:][k : k + 8 : 2]) for k in range(0, 64, 8)]
    assert all(sorted(each) == list("abcd") for each in rounds)
    assert len(set(rounds)) > 1


def test_a_slow_contender_has_fewer_rounds_spread_over_the_run() -> None:
    slow = Contender("slow", lambda calls: [1.0] * calls)
    timing = interleave([slow], rounds=9, spend=3.0)["slow"]
    assert [k for k, sample in enumerate(timing.samples) if sample is not None] == [2, 5, 8]


def test_keys_are_told_apart() -> None:
    same = [local("one", int), local("one", int)]
    with pytest.raises(ValueError, match="different keys"):
        interleave(same, rounds=1)


def test_a_burst_times_each_call() -> None:
    seconds = timed(lambda: time.sleep(0.002), 3)
    assert len(seconds) == 3
    assert min(seconds) >= 0.002
