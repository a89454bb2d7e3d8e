"""The weights that a rule gives updates of which only the numbers between them are known."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Floats
from mixtailor.intake import Arrival
from mixtailor.rules._release import released
from mixtailor.rules.request import KeySource, Request
from mixtailor.updates import Call, Combination, Updates
from mixtailor.updates.numbers import NeedsCoordinates, Numbers, Unseen

__all__ = ["decided_from_numbers", "weights_from_numbers"]

COMBINING = "Krum, CAF, GeometricMedian() and others, and NNM before them, decide from numbers between the updates."


def weights_from_numbers(
    rule: Any, distances: Any, products: Any, norms: Any, entropy: KeySource | None = None
) -> Floats:
    """What `Rule.weights` returns. (The rule is typed loosely: this module is below `Rule`.)"""
    return decided_from_numbers(rule, distances, products, norms, entropy)[0]


def decided_from_numbers(
    rule: Any, distances: Any, products: Any, norms: Any, entropy: KeySource | None = None
) -> tuple[Floats, Any]:
    """The weights, and the rule that decided: of a pool, the one that was drawn."""
    asks = rule.asks()
    if distances is not None and not isinstance(distances, Mapping):
        distances = {next(iter(asks.norms)) if len(asks.norms) == 1 else 2.0: distances}
    numbers = Numbers(distances or {}, products, norms)
    rule.check_rows(numbers.n)
    if asks.reference == "trusted":
        refuse(f"{rule!r} needs a vector to trust, and numbers between the updates hold none. {COMBINING}")
    try:
        with released(rule._held), np.errstate(all="ignore"):
            plan = rule.plan(Arrival.of(Unseen(numbers.n)), Request(entropy=entropy), numbers.n)
            point = plan.rule.decide(Updates.seen(numbers, Call(plan.key)))
    except NeedsCoordinates as needed:
        refuse(f"{rule!r} needs {needed}, which do not follow from the numbers given. {COMBINING}")
    found = point.updates.over_received(point.weights) if isinstance(point, Combination) else None
    if found is None:
        refuse(f"{plan.rule!r} computes each coordinate by itself, so that no weights make its result. {COMBINING}")
    return np.array(found), plan.rule
