"""Rules to attack: every one that is exported, with random parameters, alone, chained, nested and mixed."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import mixtailor as mt
from mixtailor.mixing import registry
from mixtailor.preaggregation import PreAggregation
from mixtailor.rules import Rule

NORMS = (1.0, 1.5, 2.0, 2.0, 2.0, 3.0, 7.0, 16.0, float("inf"))
# Values for parameters by name. One that has a default and is not here keeps it; a new required one needs a line.
VALUES: dict[str, tuple[Any, ...]] = {
    "tau": (1e-3, 4.0, 1e6),
    "radius": (1e-3, 5.0, 1e6),
    "eps": (1e-12, 1e-6),
    "size": (1, 2, 3),
    "repeats": (1, 2),
    "power": (1, 2, 2),
    "m": (None, 1, 2),
    "iterations": (1, 2, 5),
    "coordinates": (1, 5, 10_000),
    "sketch": (16, 256),
    "branches": (3, 4),
    "inner": (mt.Comed(), mt.GeometricMedian()),
    "outer": (mt.Comed(), mt.Medoid()),
    "p": NORMS,
}
INNER = (mt.Krum, mt.Comed, mt.TrimmedMean, mt.GeometricMedian, mt.Medoid, mt.Meamed, mt.MultiKrum)


def second(rows: Any) -> Any:
    """A plain callable for pools: it knows nothing of Byzantine rows."""
    return rows[len(rows) // 2]


def drawn(rng: np.random.Generator) -> Rule:
    """One rule, with an f that its parts agree on."""
    f = int(rng.choice([0, 1, 1, 1, 2, 2, 3]))
    shape = rng.random()
    if shape < 0.62:
        kinds = list(registry.own_rules().values())
        return _made(kinds[rng.integers(len(kinds))], rng, f)
    if shape < 0.86:
        return _front(rng, f) >> _inner(rng, f)
    if shape < 0.89:
        return _front(rng, f) >> (_front(rng, f) >> _inner(rng, f))
    if shape < 0.94:
        return mt.Bulyan(f, selection=_phase(rng, f), then=_phase(rng, f), p=float(rng.choice(NORMS)))
    return _mixture(rng, f)


def _made(kind: type, rng: np.random.Generator, f: int) -> Any:
    given: dict[str, Any] = {}
    for item in dataclasses.fields(kind):
        if not item.init:
            continue
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if item.name == "f":
            given["f"] = f
        elif item.name == "rule":  # a sketch has Euclidean distances only
            given["rule"] = mt.Krum(f) if kind is mt.Sketched else _inner(rng, f)
        elif item.name == "k":
            given["k"] = max(given["rule"].min_rows(), 3) + int(rng.integers(3))
        elif item.name in VALUES and (required or rng.random() < 0.7):
            values = VALUES[item.name]
            given[item.name] = values[rng.integers(len(values))]
        elif required:
            raise ValueError(f"{kind.__name__} requires {item.name}: give values in campaigns/rows/subjects.py")
    return kind(**given)


def _inner(rng: np.random.Generator, f: int) -> Rule:
    return _made(INNER[rng.integers(len(INNER))], rng, f)  # type: ignore[no-any-return]  # made by a class that is chosen at random


def _phase(rng: np.random.Generator, f: int) -> Rule | None:
    phases = [None, mt.Krum(f), mt.Comed(), mt.GeometricMedian(), mt.Mean(), mt.Medoid(), mt.TrimmedMean(f)]
    return phases[rng.integers(len(phases))]


def _front(rng: np.random.Generator, f: int) -> PreAggregation:
    kinds = list(registry.own_preaggregations().values())
    return _made(kinds[rng.integers(len(kinds))], rng, f)  # type: ignore[no-any-return]  # as above


def _mixture(rng: np.random.Generator, f: int) -> Rule:
    match rng.integers(5):
        case 0:
            return mt.MixTailor(mt.default_pool(f))
        case 1:
            return mt.MixTailor(mt.paper_pool(f))
        case 2:
            return mt.NNM(f) >> mt.MixTailor([mt.Krum(f), mt.Comed()])
        case 3:
            return mt.MixTailor([second, mt.Comed()])
        case _:
            return mt.MixTailor([_inner(rng, f), _inner(rng, f)], [0.75, 0.25])
