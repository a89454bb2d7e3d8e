"""Instances of every exported rule and pre-aggregation, made from their fields: nothing here is kept by hand but the
values of parameters that have no default."""

import dataclasses
import itertools

import mixtailor as mt
from mixtailor.mixing import registry
from mixtailor.preaggregation import PreAggregation
from mixtailor.rules import Rule

# One value, or several, for each parameter name that some class requires. A new required parameter needs a line here.
VALUES = {
    "f": (1, 2),
    "rule": (mt.Comed(),),
    "k": (7,),
    "tau": (4.0,),
    "radius": (5.0,),
    "eps": (1e-6,),
    "size": (2,),
    "repeats": (2,),
    "branches": (3,),
    "inner": (mt.Krum(2), mt.Comed()),
    "outer": (mt.Comed(),),
    "sketch": (256,),
}
# Values for one class alone: a sketch has no coordinates for the rule above.
OWN = {mt.Sketched: {"rule": (mt.Krum(2), mt.GeometricMedian())}}
NORMS = (1.0, 3.0, float("inf"))


def _instances(kind: type) -> list:
    required = [
        item.name
        for item in dataclasses.fields(kind)
        if item.init and item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
    ]
    known = {**VALUES, **OWN.get(kind, {})}
    missing = [name for name in required if name not in known]
    assert not missing, f"{kind.__name__} requires {missing}: give a value in tests/samples.py"
    made = [
        kind(**dict(zip(required, values, strict=True)))
        for values in itertools.product(*(known[name] for name in required))
    ]
    if "p" in {item.name for item in dataclasses.fields(kind)}:
        made += [dataclasses.replace(made[0], p=p) for p in NORMS]
    return made


def rules() -> list[Rule]:
    """Every exported rule, in several norms where it has one."""
    return [rule for kind in registry.own_rules().values() for rule in _instances(kind)]


def preaggregations() -> list[PreAggregation]:
    """Every exported pre-aggregation."""
    return [before for kind in registry.own_preaggregations().values() for before in _instances(kind)]


def everything() -> list[Rule]:
    """Rules, each pre-aggregation in front of a columnwise and a distance rule, Bulyan's variants, and mixtures."""
    chains: list[Rule] = []
    for before in preaggregations():
        f = before.declared_f() or 1
        chains += [before >> mt.Krum(f), before >> mt.Comed()]
    bulyans = [
        mt.Bulyan(1, selection=selection, then=then)
        for selection, then in [
            (mt.GeometricMedian(), mt.Krum(1)),
            (mt.Comed(), mt.Comed()),
            (mt.Mean(), mt.GeometricMedian()),
            (mt.Krum(1, p=3), mt.TrimmedMean(1)),
        ]
    ]
    mixtures: list[Rule] = [
        mt.MixTailor(mt.default_pool(2)),
        mt.MixTailor([mt.Krum(1), mt.Comed(), mt.TrimmedMean(1)], [0.5, 0.25, 0.25]),
        mt.NNM(2) >> mt.MixTailor([mt.Krum(2), mt.Comed()]),
    ]
    return rules() + chains + bulyans + mixtures
