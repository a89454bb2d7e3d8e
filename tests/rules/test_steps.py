"""Rules that iterate share their readings."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.rules.steps import Query, Steps, decide_by_steps, prefetch
from mixtailor.updates import Median, Point, Updates

ROWS = np.random.default_rng(3).normal(size=(9, 50))


@dataclass(frozen=True)
class Towards(mt.Rule):
    """A rule of somebody else's that iterates: from the median towards the update nearest to it, k times."""

    k: int

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(n d) per step"

    def min_rows(self) -> int:
        return 1

    def steps(self, updates: Updates) -> Steps:
        weights = np.zeros(updates.n)
        distances = yield Query(updates.columns(Median()), 2.0)
        for _ in range(self.k):
            weights[distances.argmin()] += 1.0
            distances = yield Query(updates.combine(weights / weights.sum()), 3.0)
        return updates.combine(weights / weights.sum(), scores=distances)

    def decide(self, updates: Updates) -> Point:
        return decide_by_steps(self, updates)


POOL = [
    mt.Krum(2),
    mt.Krum(2, p=3),
    mt.Medoid(p=math.inf),
    mt.NNM(2, p=1) >> mt.Krum(2, p=5),
    *(mt.GeometricMedian(p=p) for p in (1.0, 2.0, 3.0, math.inf)),
    Towards(1),
    Towards(4),
    mt.Comed(),
]


def test_what_is_prefetched_is_what_each_rule_finds_alone() -> None:
    """Bit for bit, whoever wrote the rule."""
    home = Updates.arrived(receive(ROWS))
    prefetch(POOL, home)
    for rule in POOL:
        np.testing.assert_array_equal(home.at(rule.decide(home)), rule(ROWS), err_msg=repr(rule))


def test_readings_are_shared(monkeypatch) -> None:
    """One call for all norms, and one per step for all that still run; `decide` asks for nothing more."""
    asked: list[object] = []

    def watch(name: str) -> None:
        plain = getattr(Updates, name)

        def asking(self: Updates, *arguments):
            asked.append((name, *arguments[-1:]))
            return plain(self, *arguments)

        monkeypatch.setattr(Updates, name, asking)

    rules = [mt.Krum(2), mt.Krum(2, p=3), Towards(1), Towards(4), mt.GeometricMedian(p=3)]
    home = Updates.arrived(receive(ROWS))
    for name in ("distances", "distances_to", "lengths_to", "distances_to_each"):
        watch(name)
    prefetch(rules, home)
    assert asked[0] == ("distances", (2.0, 3.0))
    assert asked[1] == ("lengths_to", [2.0, 2.0, 3.0]), "the start is the same statistic for all three"
    assert [len(norms) for name, norms in asked[2:6] if name == "distances_to_each"][:2] == [3, 2]
    asked.clear()
    for rule in rules[2:]:
        rule.decide(home)
    assert asked == []


def test_one_rule_alone_is_not_prefetched(monkeypatch) -> None:
    """There is nothing to share, and what it will ask for may depend on what it finds."""
    home = Updates.arrived(receive(ROWS))
    monkeypatch.setattr(Updates, "distances", lambda *_: pytest.fail("asked"))
    prefetch([mt.Krum(2), mt.GeometricMedian(p=3)], home)


def test_most_rules_offer_no_steps() -> None:
    home = Updates.arrived(receive(ROWS))
    assert mt.Krum(2).steps(home) is None and mt.GeometricMedian().steps(home) is None
    assert mt.GeometricMedian(p=3).steps(home) is not None
