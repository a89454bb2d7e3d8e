"""Parts list their parts, and everything that must reach all of them is built on that list."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import pytest
import samples

import mixtailor as mt
from mixtailor.mixing.sources import source_of
from mixtailor.rules.part import Asks, Part, walk
from mixtailor.testing.laws import reads_all
from mixtailor.updates import Point, Updates

ROWS = np.random.default_rng(1).normal(size=(12, 6))


@dataclass(frozen=True)
class ByName(mt.Rule):
    """Keeps its rules in a mapping, which fields do not show; applies the first of them."""

    rules: Mapping[str, mt.Rule] = field(hash=False)

    requirement: ClassVar[str] = "what its first rule needs"
    cost: ClassVar[str] = "that of its first rule"

    def parts(self) -> tuple[Part, ...]:
        return tuple(self.rules.values())

    def with_parts(self, parts: Any, **changes: Any) -> Self:
        return type(self)(dict(zip(self.rules, parts, strict=True)))

    def min_rows(self) -> int:
        return max(rule.min_rows() for rule in self.rules.values())

    def decide(self, updates: Updates) -> Point:
        return next(iter(self.rules.values())).decide(updates)


def test_parts_of_each_kind() -> None:
    """Fields, tuples, and nothing else: caches of a chain or a pool are no parts."""
    chain = mt.NNM(1) >> mt.Bucketing(size=2) >> mt.Krum(1)
    pool = mt.MixTailor([chain, mt.Comed()])
    pool(ROWS), chain(ROWS)
    assert mt.Krum(1).parts() == ()
    assert mt.Bulyan(1, then=mt.Comed()).parts() == (mt.Comed(),)
    assert chain.parts() == (mt.NNM(1) >> mt.Bucketing(size=2), mt.Krum(1))
    assert pool.parts() == (chain, mt.Comed())
    assert [type(part).__name__ for part in walk(pool)] == [
        "MixTailor", "Chain", "Both", "NNM", "Bucketing", "Krum", "Comed",
    ]  # fmt: skip


@pytest.mark.parametrize("rule", samples.everything(), ids=repr)
def test_with_parts_undoes_parts(rule) -> None:
    """The same parts give the same rule, and another f reaches everything that declares one."""
    assert rule.with_parts(rule.parts()) == rule
    f = rule.declared_f()
    if f:
        lowered = rule.with_f(f - 1)
        assert {part.f for part in walk(lowered) if getattr(part, "f", None) is not None} <= {f - 1}
        assert lowered.declared_f() == f - 1 and lowered.with_f(f) == rule
    assert rule.with_f(f or 0) is rule, "nothing changes, so nothing is made"


def test_a_rule_that_keeps_its_parts_elsewhere() -> None:
    """It overrides two methods, and f, release times, sources, faults and prefetching all reach its parts."""
    pool = mt.MixTailor([mt.Krum(2)], entropy=mt.SeededEntropy(3), release_after=0.01)
    rule = ByName({"one": mt.Krum(2), "other": pool, "third": mt.DnC(2), "fourth": mt.FLTrust()})
    assert rule.declared_f() == 2
    assert rule.with_f(1).rules["one"] == mt.Krum(1) and rule.with_f(1).rules["other"].rules == (mt.Krum(1),)
    assert rule._held == 0.01
    assert source_of(rule) == mt.SeededEntropy(3)
    assert not reads_all(rule) and reads_all(ByName({"one": mt.Krum(2)}))
    assert rule.asks() == Asks(frozenset({2.0}), "trusted")
    spoiled = ROWS.copy()
    spoiled[3, 0] = np.nan
    found = ByName({"one": mt.Krum(4), "other": mt.Krum(4)}).aggregate(spoiled)
    assert found.rule.rules == {"one": mt.Krum(4), "other": mt.Krum(4)}
    found = ByName({"one": mt.Krum(4), "other": mt.Krum(4)}).aggregate(spoiled[:11])
    assert found.rule.rules == {"one": mt.Krum(3), "other": mt.Krum(3)}, "f is lowered in all parts"


def test_a_pool_keeps_its_settings_when_its_parts_change() -> None:
    """Probabilities, source and release time; with an audit trail, no source is given."""
    pool = mt.MixTailor([mt.Krum(2), mt.Comed()], [0.25, 0.75], mt.SeededEntropy(1), release_after=0.5)
    lowered = pool.with_f(1)
    assert lowered == mt.MixTailor([mt.Krum(1), mt.Comed()], [0.25, 0.75], mt.SeededEntropy(1), release_after=0.5)


def test_a_source_is_found_however_deep_it_is() -> None:
    """A pool inside a pool, or behind a pre-aggregation."""
    seeded = mt.MixTailor([mt.Krum(1)], entropy=mt.SeededEntropy(5))
    for rule in (seeded, mt.NNM(1) >> seeded, mt.MixTailor([mt.Comed(), mt.NNM(1) >> seeded])):
        assert source_of(rule) == mt.SeededEntropy(5)
    assert source_of(mt.MixTailor([mt.Comed()])) == mt.SystemEntropy()


def test_what_parts_ask_is_asked_of_the_updates_that_they_see() -> None:
    """A rule behind a pre-aggregation sees other updates, but the same reference."""
    assert mt.Krum(1, p=3).asks() == Asks.distances(3)
    assert (mt.NNM(1, p=4) >> mt.Krum(1, p=3)).asks() == Asks.distances(4)
    assert (mt.Clipping(1.0) >> mt.NNM(1) >> mt.MoNNA(1)).asks() == Asks(frozenset(), "trusted")
    assert mt.Bulyan(1, p=3).asks() == Asks.distances(3)
    assert mt.Bulyan(1, selection=mt.Krum(1, p=7), then=mt.Krum(1, p=5)).asks() == Asks.distances(7)
    assert mt.Bulyan(1, then=mt.FLTrust()).asks().reference == "trusted"
    pool = mt.MixTailor([mt.Krum(1), mt.Medoid(p=3), mt.CenteredClipping(tau=1.0)])
    assert pool.asks() == Asks(frozenset({2.0, 3.0}), "previous")
    assert (pool.asks() | mt.FLTrust().asks()).reference == "trusted"


@pytest.mark.parametrize(
    "rule", [rule for rule in samples.everything() if not isinstance(rule, mt.MixTailor)], ids=repr
)
def test_rules_ask_what_they_declare(rule, monkeypatch) -> None:
    """The norms of the distances between all updates, and whether anybody looks at the reference."""
    asked: set[float] = set()
    given: list[Updates] = []
    referred = []
    plain, decided = Updates.distances, type(rule).decide

    def decide(self: mt.Rule, updates: Updates) -> Point:
        given.append(updates)
        return decided(self, updates)

    def distances(self: Updates, p: Any = 2.0) -> Any:
        if self is given[0]:  # what a rule inside another one is given does not count
            asked.update(p if isinstance(p, tuple) else (p,))
        return plain(self, p)

    def reference(self: Updates) -> Any:
        referred.append(self)
        return original.__get__(self)

    original = Updates.reference
    n = max(rule.min_rows(), 9) + 3
    rows = np.random.default_rng(2).normal(size=(n, 30))
    monkeypatch.setattr(type(rule), "decide", decide)
    monkeypatch.setattr(Updates, "distances", distances)
    monkeypatch.setattr(Updates, "reference", property(reference))
    rule(rows, reference=rows[0] + 0.1, honest=range(n - 2))
    declared = rule.asks()
    assert declared.norms <= asked, "what is declared is asked for"
    if not isinstance(rule, (mt.Subsampled, mt.DnC)) and not any(isinstance(part, mt.MixTailor) for part in walk(rule)):
        # Distances in l_2 may also be asked for on the way to a geometry: behind NNM in another norm, for instance.
        assert asked - {2.0} <= declared.norms
    assert bool(referred) == (declared.reference is not None)


def test_parts_pickle_after_a_call() -> None:
    """What a part remembers of its parts does not get in the way."""
    rule = mt.NNM(1) >> mt.Krum(1)
    rule(ROWS)
    assert pickle.loads(pickle.dumps(rule)) == rule  # noqa: S301  # our own bytes
