"""What workers say of themselves: how much data they have, and what they measured. Some of it is false."""

import math
from collections.abc import Sequence

import numpy as np

from mixtailor._types import Floats

__all__ = ["MOST_EXAMPLES", "capped", "is_claim", "lower_median", "number"]

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


def capped(claimed: Sequence[float], cap: float | None) -> Floats | None:
    """The factor of each difference: its claim over the median of all claims, up to the cap; None without a cap.

    The median and not the mean: a few that claim much would make the mean as large as they like, and everybody
    else's difference vanish. Where the median is zero, claims say nothing and do not count.

    Examples
    --------
    >>> capped([100, 200, 400, 1e9], 3.0)
    array([0.33333333, 0.66666667, 1.33333333, 3.        ])
    """
    if cap is None:
        return None
    values = np.asarray(claimed, np.float64)
    middle = float(np.median(values))
    return np.minimum(values / middle, cap) if middle > 0 else np.ones(len(values))


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
