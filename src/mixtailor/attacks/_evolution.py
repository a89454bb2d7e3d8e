"""A search without derivatives: covariance matrix adaptation, and the record of what a search has tried."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mixtailor.updates.engine import Floats

__all__ = ["Record", "evolve"]


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
    r"""The least value near a start, by covariance matrix adaptation (CMA-ES).

    .. math:: x_k = m + \sigma C^{1/2} z_k, \qquad m \leftarrow \sum_k w_k x_{(k)}

    Only the order of the values matters, so that jumps and values of any size do no harm.

    Parameters
    ----------
    value : callable
        From a candidate to its value.
    start : array
        The first mean; it is valued too.
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
    .. [1] Hansen, "The CMA Evolution Strategy: A Tutorial", 2016; its default weights and rates.
    """
    m = len(start)
    many = 4 + int(3 * math.log(m))
    few = many // 2
    raw = math.log((many + 1) / 2) - np.log(np.arange(1, few + 1))
    weights = raw / raw.sum()
    mass = 1.0 / float((weights**2).sum())
    rate_sigma = (mass + 2) / (m + mass + 5)
    damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (m + 1)) - 1) + rate_sigma
    rate_path = (4 + mass / m) / (m + 4 + 2 * mass / m)
    rate_one = 2 / ((m + 1.3) ** 2 + mass)
    rate_few = min(1 - rate_one, 2 * (mass - 2 + 1 / mass) / ((m + 2) ** 2 + mass))
    usual = math.sqrt(m) * (1 - 1 / (4 * m) + 1 / (21 * m * m))

    mean, sigma, covariance = start.astype(np.float64), step, np.eye(m)
    path, path_sigma = np.zeros(m), np.zeros(m)
    best, least = mean.copy(), value(mean)
    left, generation = budget - 1, 0
    while left > 0:
        generation += 1
        squares, axes = np.linalg.eigh(covariance)
        lengths = np.sqrt(np.maximum(squares, 1e-20))
        steps = (rng.standard_normal((min(many, left), m)) * lengths) @ axes.T
        left -= len(steps)
        found = np.array([value(mean + sigma * each) for each in steps])
        order = np.argsort(found, kind="stable")
        if found[order[0]] < least:
            best, least = mean + sigma * steps[order[0]], float(found[order[0]])
        if len(steps) < few:
            break
        chosen = steps[order[:few]]
        moved = weights @ chosen
        mean = mean + sigma * moved
        white = axes @ ((axes.T @ moved) / lengths)
        path_sigma = (1 - rate_sigma) * path_sigma + math.sqrt(rate_sigma * (2 - rate_sigma) * mass) * white
        length = float(np.linalg.norm(path_sigma)) / math.sqrt(1 - (1 - rate_sigma) ** (2 * generation))
        steady = float(length < (1.4 + 2 / (m + 1)) * usual)
        path = (1 - rate_path) * path + steady * math.sqrt(rate_path * (2 - rate_path) * mass) * moved
        covariance = (
            (1 - rate_one - rate_few) * covariance
            + rate_one * (np.outer(path, path) + (1 - steady) * rate_path * (2 - rate_path) * covariance)
            + rate_few * (chosen.T * weights) @ chosen
        )
        covariance = (covariance + covariance.T) / 2
        sigma *= math.exp(min(1.0, rate_sigma / damping * (float(np.linalg.norm(path_sigma)) / usual - 1)))
    return best, least


def first_below(history: Sequence[tuple[int, float]], bound: float) -> int | None:
    """How many tries it took until the value was at most the bound; None where it never was."""
    return next((tried for tried, value in history if value <= bound), None)
