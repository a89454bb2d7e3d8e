"""A search without derivatives, and the record of what a search has tried."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mixtailor._types import Floats

__all__ = ["Record", "evolve", "first_below"]

_MOVED = 0.3
# In balance where about one child in five is better: log(1.5) = 0.41 and -4 log(0.9) = 0.42.
_LONGER, _SHORTER = 1.5, 0.9


@dataclass
class Record:
    """What a search has tried: the best so far, and the value against the number of candidates.

    Attributes
    ----------
    best : array or None
        The best candidate.
    value : float
        Its value.
    tried : int
        How many candidates were valued.
    history : list of (int, float)
        The number of candidates at each improvement, and the value from there on.

    Examples
    --------
    >>> record = Record()
    >>> [record.note(np.array([x]), x**2) for x in (2.0, -1.0, 3.0)]
    [4.0, 1.0, 9.0]
    >>> record.value, record.history
    (1.0, [(1, 4.0), (2, 1.0)])
    """

    best: Floats | None = None
    value: float = math.inf
    tried: int = 0
    history: list[tuple[int, float]] = field(default_factory=list)

    def note(self, candidate: Floats, value: float) -> float:
        """Count a candidate and keep it if it is the best."""
        self.tried += 1
        if value < self.value:
            self.best, self.value = candidate.copy(), value
            self.history.append((self.tried, value))
        return value


def evolve(
    value: Callable[[Floats], float], start: Floats, *, step: float, budget: int, rng: np.random.Generator
) -> tuple[Floats, float]:
    r"""The least value near a start, by an evolution strategy with one parent and one child.

    .. math:: x' = x + \sigma \, (z \circ \text{mask}), \qquad \sigma \leftarrow 1.5 \sigma \text{ where } x' \text{ is
        better, else } 0.9 \sigma

    Each child moves in about a third of the coordinates. Only the order of the values matters, so that jumps and values
    of any size do no harm.

    Parameters
    ----------
    value : callable
        From a candidate to its value.
    start : array
        The first parent; it is valued too.
    step : float
        The first sigma.
    budget : int
        How many candidates to value.
    rng : Generator

    Examples
    --------
    >>> best, least = evolve(lambda x: float(((x - 3.0) ** 2).sum()), np.zeros(2), step=1.0, budget=300,
    ...                      rng=np.random.default_rng(0))
    >>> best.round(2)
    array([3., 3.])

    References
    ----------
    .. [1] Rechenberg, "Evolutionsstrategie", 1973, the rule of one success in five.
    """
    best, least = start.astype(np.float64), value(start)
    for _ in range(budget - 1):
        mask = rng.random(len(best)) < _MOVED
        mask[rng.integers(len(best))] = True
        child = best + step * rng.standard_normal(len(best)) * mask
        found = value(child)
        if found < least:
            best, least, step = child, found, _LONGER * step
        else:
            step *= _SHORTER
    return best, least


def first_below(history: Sequence[tuple[int, float]], bound: float) -> int | None:
    """How many tries it took until the value was at most the bound; None where it never was."""
    return next((tried for tried, value in history if value <= bound), None)
