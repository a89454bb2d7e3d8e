"""Interleaved timing: in every round each contender has its turn, so that noise hits all alike.

A turn is one call that is not counted, so that caches and threads are the contender's own, and then a burst of counted
calls; the median of the burst is the round's sample. Ratios are formed within rounds and reported as their median.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

__all__ = ["Contender", "Timing", "interleave", "local", "quartiles", "ratio", "timed"]

# Threads of BLAS and OpenMP spin on after a call, and would take a core from whoever has the next turn.
SETTLE = 0.05


@dataclass(frozen=True)
class Contender:
    """Something that is timed: `time` makes so many calls in a row and returns the seconds of each."""

    key: str
    time: Callable[[int], Sequence[float]]
    settle: float = 0.0


@dataclass
class Timing:
    """Seconds, one sample a round; None where a slow contender sat a round out."""

    samples: list[float | None] = field(default_factory=list)
    calls: int = 0

    @property
    def known(self) -> list[float]:
        return [sample for sample in self.samples if sample is not None]

    @property
    def median(self) -> float:
        return statistics.median(self.known)

    @property
    def quartiles(self) -> tuple[float, float]:
        return quartiles(self.known)

    def __add__(self, other: Timing) -> Timing:
        return _each(self, other, lambda a, b: a + b)

    def __sub__(self, other: Timing) -> Timing:
        return _each(self, other, lambda a, b: a - b)

    def __mul__(self, factor: float) -> Timing:
        return Timing([None if sample is None else sample * factor for sample in self.samples], self.calls)


def _each(one: Timing, other: Timing, operation: Callable[[float, float], float]) -> Timing:
    pairs = zip(one.samples, other.samples, strict=True)
    return Timing([None if a is None or b is None else operation(a, b) for a, b in pairs], min(one.calls, other.calls))


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and third quartile; both the value itself where there is one only."""
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def ratio(one: Timing, other: Timing) -> tuple[float, float, float]:
    """How many times longer: the median over rounds in which both had a turn, and its quartiles."""
    pairs = zip(one.samples, other.samples, strict=True)
    values = [a / b for a, b in pairs if a is not None and b is not None]
    if not values:
        raise ValueError("A ratio needs a round in which both had a turn, and there is none.")
    return (statistics.median(values), *quartiles(values))


def timed(call: Callable[[], Any], calls: int) -> list[float]:
    """The seconds of so many calls in a row; answers are dropped outside the clock."""
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        answer = call()
        seconds.append(time.perf_counter() - start)
        del answer
    return seconds


def local(key: str, call: Callable[[], Any], settle: float = 0.0) -> Contender:
    """A contender in this process."""

    def measure(calls: int) -> list[float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a rule that stops at its limit says so in the passes it reports
            return timed(call, calls)

    return Contender(key, measure, settle)


def interleave(
    contenders: Iterable[Contender],
    *,
    rounds: int,
    burst: float = 0.01,
    spend: float = 3.0,
    seed: int = 0,
    say: Callable[[str], None] = lambda _text: None,
) -> Mapping[str, Timing]:
    """Time the contenders, in a new random order each round.

    Parameters
    ----------
    contenders : iterable of Contender
    rounds : int
        Samples of each contender.
    burst : float
        Seconds that a turn should fill, at least one call.
    spend : float
        Seconds that a contender may take in all. Slow ones have fewer rounds, at least one, spread over the run, and no
        uncounted call before each turn where a call takes a tenth of this.
    """
    order = list(contenders)
    keys = [contender.key for contender in order]
    if len(set(keys)) != len(keys):
        raise ValueError(f"Contenders need different keys and got {sorted({k for k in keys if keys.count(k) > 1})}.")
    shuffle = Random(seed).shuffle
    first: dict[str, float] = {}
    for contender in order:  # compiles, allocates, faults pages in: never counted
        cold = contender.time(1)[0]
        first[contender.key] = cold if cold > spend else min(contender.time(2))
        time.sleep(contender.settle)
    timings = {key: Timing() for key in keys}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        shuffle(order)
        for contender in order:
            estimate, timing = first[contender.key], timings[contender.key]
            share = max(1, min(rounds, int(spend / max(estimate, 1e-7))))
            # Slow ones sit rounds out evenly, so that they too see all of the run's weather.
            if (number + 1) * share // rounds == number * share // rounds:
                timing.samples.append(None)
                continue
            if estimate < spend / 10:
                contender.time(1)
            calls = max(1, min(64, int(burst / max(estimate, 1e-7))))
            timing.samples.append(statistics.median(contender.time(calls)))
            timing.calls += calls
            time.sleep(contender.settle)
    return timings
