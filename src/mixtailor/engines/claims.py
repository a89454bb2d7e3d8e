"""What workers say of themselves: how much data they have, and what they measured. Some of it is false."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mixtailor._checks import refuse
from mixtailor.rules.base import Rule
from mixtailor.rules.weighting import check_weighted

__all__ = ["MOST_EXAMPLES", "check_cap", "is_claim", "lower_median", "number", "weighing"]

# The most examples that a worker can claim before the claim is a fault.
MOST_EXAMPLES = 1e9


def is_claim(claim: object, most: float) -> bool:
    """Whether this can be a number of examples: from 0 to the most that is possible.

    Examples
    --------
    >>> [is_claim(claim, 1e9) for claim in (600, 1e30, float("nan"), -1, True, "600")]
    [True, False, False, False, False, False]
    """
    return isinstance(claim, (int, float)) and not isinstance(claim, bool) and 0 <= claim <= most  # NaN is not between


def check_cap(name: str, option: str, cap: float, rule: Rule, f: int) -> None:
    """Raise a ValueError if claims cannot count up to this cap, or f workers that claim much would have half of all.

    Examples
    --------
    >>> import mixtailor as mt
    >>> check_cap("RobustStrategy", "examples_cap", 0.25, mt.Comed(), 2)
    Traceback (most recent call last):
    ValueError: RobustStrategy needs examples_cap < 1/(2f) = 0.25 and got 0.25: f = 2 could claim half of all weight.
    """
    if not isinstance(cap, (int, float)) or isinstance(cap, bool) or not 0 < cap <= 1:
        refuse(f"{name} needs {option} above 0 and at most 1, the most of all weight for one worker, and got {cap!r}.")
    check_weighted(rule)
    if 2 * f * cap >= 1:
        most = f"{1 / (2 * f):.4g}"
        refuse(f"{name} needs {option} < 1/(2f) = {most} and got {cap!r}: f = {f} could claim half of all weight.")


def weighing(claimed: Mapping[int, float], n: int, cap: float | None) -> dict[str, Any]:
    """What a rule is given of the claims of n workers, given by place: weights and their cap; nothing without a cap.

    A worker without a sound claim has no weight. Where all claim nothing, all count alike.

    Examples
    --------
    >>> weighing({0: 100, 2: 1e9}, 3, 0.25)
    {'weights': [100.0, 0.0, 1000000000.0], 'cap': 0.3333333333333333}
    """
    if cap is None or not any(claimed.values()):
        return {}
    # Weights of n workers cannot all be below 1/n.
    return {"weights": [float(claimed.get(place, 0.0)) for place in range(n)], "cap": max(cap, 1 / n)}


def lower_median(values: Sequence[int | float]) -> float:
    """The lower median of the numbers that are numbers.

    Examples
    --------
    >>> lower_median([0.5, 0.4, 1e30, float("nan")])
    0.5
    """
    ordered = sorted(value for value in map(number, values) if not math.isnan(value))
    return ordered[(len(ordered) - 1) // 2] if ordered else math.nan


def number(value: int | float) -> float:
    """A float for any number; a whole number beyond all floats is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
