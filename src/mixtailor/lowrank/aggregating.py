"""A rule on low-rank updates: inner products from small matrices, weights from them, factors from the weights."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mixtailor._checks import FaultError, check_count, fault_message, refuse
from mixtailor.lowrank.factors import Factors, LowRank, combined, products, truncated
from mixtailor.rules._numbers import decided_from_numbers
from mixtailor.rules.aggregation import Aggregation, Quarantined
from mixtailor.rules.base import Rule
from mixtailor.rules.request import KeySource

__all__ = ["aggregate_low_rank"]


def aggregate_low_rank(
    rule: Rule,
    updates: Sequence[Mapping[str, Any]],
    *,
    workers: Sequence[object] | None = None,
    rank: int | None = None,
    faults: Mapping[int, str] | None = None,
    entropy: KeySource | None = None,
) -> Aggregation:
    """Aggregate the products of factors, without forming a product.

    A mean of factors is not the factor of a mean: ``mean(B) @ mean(A)`` differs from ``mean(B @ A)``. And a rule on the
    factors themselves sees distances that mean nothing, since ``(B / 2, 2 A)`` stands for the same update. Here the
    rule decides as if it saw the products. It must be one whose result is a weighted sum of the updates: Krum,
    Multi-Krum, CAF, the geometric median and others, NNM before them, and pools of them.

    Parameters
    ----------
    rule : Rule
        The rule.
    updates : sequence of mappings
        For each worker its layers by name: `Factors`, or pairs (left, right). Ranks may differ.
    workers : sequence, optional
        Their names.
    rank : int, optional
        The rank that the layers of the result get, at most. Without it they are stacked, and their rank is the sum of
        the ranks of the updates with a weight.
    faults : mapping, optional
        Updates that are known to be faulty: their places, and why.
    entropy : KeySource, optional
        Where randomness comes from; the operating system by default.

    Returns
    -------
    Aggregation
        `update` has the layers as `Factors`; ``facts["error"]`` is the Frobenius norm of what truncation lost.

    Examples
    --------
    >>> from mixtailor import MultiKrum
    >>> random = np.random.default_rng(0)
    >>> honest = [{"layer": (np.ones((4, 1)) + 0.1 * random.normal(size=(4, 1)), np.ones((1, 3)))} for _ in range(5)]
    >>> hostile = {"layer": (np.full((4, 2), -1e6), np.ones((2, 3)))}
    >>> result = aggregate_low_rank(MultiKrum(f=1), [*honest, hostile], rank=1)
    >>> (result.update["layer"].left @ result.update["layer"].right).shape, float(result.weights[5])
    ((4, 3), 0.0)
    """
    if rank is not None:
        check_count("aggregate_low_rank", "rank", rank)
    if not len(updates):
        refuse("There is no update to aggregate.")
    names = tuple(workers) if workers is not None else ()
    if names and len(names) != len(updates):
        refuse(f"{len(updates)} updates came with {len(names)} names.")
    read = [(faults or {}).get(place) or _read(update) for place, update in enumerate(updates)]
    common = Counter(_outline(each) for each in read if isinstance(each, dict)).most_common(1)
    found = [_fault(each, common[0][0] if common else ()) for each in read]
    reasons = {place: reason for place, reason in enumerate(found) if reason is not None}
    kept = [each for place, each in enumerate(read) if place not in reasons]
    n, tolerated = len(read), rule.tolerates(len(read))
    if len(reasons) > tolerated or not kept:
        declared = rule.declared_f()
        fixed = rule if declared is None or declared > tolerated else None
        raise FaultError(fault_message(reasons, n, tolerated, names, fixed), tuple(sorted(reasons)))
    inner = products(kept)  # type: ignore[arg-type]  # what could not be read is among the faults
    weights, drawn = decided_from_numbers(rule.lowered(len(kept), len(reasons)), {}, inner, None, entropy)
    result, lost = combined(kept, weights), 0.0  # type: ignore[arg-type]  # as above
    if rank is not None:
        for name, factors in result.items():
            result[name], left_out = truncated(factors, rank)
            lost = float(np.hypot(lost, left_out))
    every = np.zeros(n)
    every[[place for place in range(n) if place not in reasons]] = weights
    removed = tuple(Quarantined(place, _name(names, place), reason) for place, reason in reasons.items())
    return Aggregation(result, drawn, n, weights=every, quarantined=removed, facts={"error": lost}, workers=names)


def _name(names: Sequence[object], place: int) -> object:
    return names[place] if names else place


def _read(update: Mapping[str, Any]) -> LowRank | str:
    """The factors of an update in float64, or what is wrong with it."""
    found: dict[str, Factors] = {}
    for name, pair in update.items():
        try:
            left, right = (np.asarray(part, np.float64) for part in pair)
        except (TypeError, ValueError):
            return f"layer {name!r} is no pair of matrices"
        if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0] or not left.shape[1]:
            return f"layer {name!r} has factors of shapes {left.shape} and {right.shape}"
        with np.errstate(all="ignore"):
            # Bounds the squared norm of the product, which must be a number.
            largest = np.square(left).sum() * np.square(right).sum()
        if not np.isfinite(largest):
            return "not finite"
        found[str(name)] = Factors(left, right)
    return found


def _outline(update: LowRank) -> tuple[tuple[str, tuple[int, int]], ...]:
    return tuple(sorted((name, factors.shape) for name, factors in update.items()))


def _fault(update: LowRank | str, common: tuple[tuple[str, tuple[int, int]], ...]) -> str | None:
    if isinstance(update, str):
        return update
    own = dict(_outline(update))
    for name, shape in common:
        if name not in own:
            return f"layer {name!r} is missing"
        if own.pop(name) != shape:
            return f"layer {name!r} has another shape than most"
    return f"layer {next(iter(own))!r} is in few updates only" if own else None
