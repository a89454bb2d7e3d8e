"""Our rules as tasks, under the names that the table uses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mixtailor as mt
from benchmarks._machine import versions as installed
from mixtailor.intake import receive
from mixtailor.updates import Updates

__all__ = [
    "ALONE",
    "CHAINED",
    "MAIN",
    "NORMS",
    "POOL",
    "REMEMBERED",
    "SEARCHED",
    "Chosen",
    "remarks",
    "tasks",
    "versions",
]

Bind = Callable[[Any], Callable[[], Any]]

NORMS = tuple(float(p) for p in range(1, 17))
MAIN = ("Comed", "TrimmedMean", "Meamed", "Krum", "MultiKrum", "GeometricMedian", "Bulyan")
SEARCHED = ("MDA", "SMEA", "CAF")
ALONE = (*SEARCHED, "DnC")
CHAINED = ("Krum", "MultiKrum", "GeometricMedian", "Comed", "TrimmedMean", "Meamed", "Krum p=3")
POOL = tuple(range(64))
REMEMBERED = ("ViewFilter", "ViewFilter, bound 3")


@dataclass(frozen=True)
class Chosen(mt.Entropy):
    """A draw whose outcome is known beforehand, so that each rule of a pool can be timed as MixTailor runs it."""

    place: int

    def key(self, purpose: str) -> bytes:
        return b"\0" * 32

    def index(self, probabilities: object, count: int, purpose: str = "draw") -> int:
        return self.place


def _called(rule: mt.Rule) -> Bind:
    return lambda rows: lambda: rule(rows)


def _remembering(rule: mt.Rule) -> Bind:
    """With a memory for each matrix: one memory belongs to updates of one length."""

    def bound(rows: Any) -> Callable[[], object]:
        return functools.partial(mt.Memory(rule), rows)

    return bound


def _deciding(rule: mt.Rule) -> Bind:
    """What a rule does once the numbers between the rows are known: nothing that depends on d."""

    def bind(rows: Any) -> Callable[[], Any]:
        home = Updates.arrived(receive(rows))
        rule.decide(home)
        return lambda: rule.decide(home)

    return bind


def _all_distances(rows: Any) -> Callable[[], Any]:
    return lambda: Updates.arrived(receive(rows)).distances(NORMS)


def rules(n: int, f: int) -> dict[str, mt.Rule]:
    """The rules of the table; MDA and SMEA search among rows, so that they have f = 2 at most."""
    few = min(f, 2)
    plain: dict[str, mt.Rule] = {
        "Mean": mt.Mean(),
        "Comed": mt.Comed(),
        "TrimmedMean": mt.TrimmedMean(f),
        "Meamed": mt.Meamed(f),
        "Krum": mt.Krum(f),
        "MultiKrum": mt.MultiKrum(f),
        "GeometricMedian": mt.GeometricMedian(),
        "Bulyan": mt.Bulyan(f),
        "MDA": mt.MDA(few),
        "SMEA": mt.SMEA(few),
        "CAF": mt.CAF(f),
        "DnC": mt.DnC(f),
        **{f"Krum p={p:g}": mt.Krum(f, p=p) for p in NORMS},
        **{f"GeometricMedian p={p:g}": mt.GeometricMedian(p=p) for p in NORMS if p != 2.0},
    }
    mixed: dict[str, mt.Rule] = {f"NNM >> {name}": mt.NNM(f) >> plain[name] for name in CHAINED}
    return {**plain, **mixed}


def _recommended(f: int) -> dict[str, mt.Rule]:
    """The rules that `recommended` draws from; each with a memory of its own, which learns from every call."""
    pool = mt.recommended(f).rule
    assert isinstance(pool, mt.MixTailor)
    return dict(zip(REMEMBERED, pool.rules, strict=True))


def tasks(n: int, f: int) -> dict[str, Bind]:
    """All tasks for n rows of which f may be Byzantine."""
    own = rules(n, f)
    pool = mt.paper_pool(f)
    return {
        **{name: _called(rule) for name, rule in own.items()},
        "sixteen distances": _all_distances,
        **{f"recommended, {name}": _remembering(rule) for name, rule in _recommended(f).items()},
        **{f"{name}, n alone": _deciding(own[name]) for name in SEARCHED},
        **{f"pool {place}": _called(mt.MixTailor(pool, entropy=Chosen(place))) for place in POOL},
    }


def remarks() -> dict[str, str]:
    """Nothing to say about ourselves."""
    return {}


def versions() -> dict[str, str]:
    """What the measurement ran with."""
    return installed("mixtailor", "numba", "llvmlite", "numpy", "scipy", "torch")
