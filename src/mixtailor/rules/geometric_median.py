"""The geometric median."""

import warnings
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count, check_positive, refuse
from mixtailor._types import Floats
from mixtailor.kernels.medians import euclidean_median, extrapolated, inverse_weights
from mixtailor.kernels.selection import median
from mixtailor.rules._minimiser import minimiser
from mixtailor.rules._neighbours import norm_factor
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.rules.steps import Query, Steps, decide_by_steps
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Combination, Median, Point, Updates

__all__ = ["GeometricMedian"]

SMOOTHING = 1e-6  # of the median distance to the start
_MEMORY = 4  # passes that an extrapolation looks back on


@dataclass(frozen=True)
class GeometricMedian(Rule):
    r"""The point with the least sum of distances to the updates, by the smoothed Weiszfeld iteration.

    .. math:: z \leftarrow \frac{\sum_i w_i x_i}{\sum_i w_i}, \qquad w_i = \frac{1}{\max(\lVert x_i - z \rVert_p, \nu)}

    Needs ``n >= 1`` and tolerates fewer than half of the updates, so that no f is declared. Cost O(n^2 d) for p = 2,
    where all iterations run on the n x n inner products, else O(nd) an iteration.

    Parameters
    ----------
    p : float
        The norm of the weights, 1 to infinity.
    tolerance : float
        For p = 2, the iteration stops when the remaining distance, estimated from how fast steps shrink, is below this
        fraction of the median distance to the start. For other p, it stops when no weight changes by more than this
        fraction.
    minimises : bool
        Return the minimiser of the sum of l_p distances where p is not 2; p must be finite.
    limit : int
        The most iterations; beyond it the best value is returned, with a warning that gives the residual. By default
        10,000 for p = 2 and 100 for other norms.

    Examples
    --------
    >>> GeometricMedian()(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [9e9, 9e9]])).round(3)
    array([0.789, 0.789])

    Notes
    -----
    The iteration starts at the mean of the ``floor(n/2) + 1`` updates nearest to the medoid (p = 2) or at the
    coordinate-wise median (other p), and the smoothing :math:`\nu` is 1e-6 of the median distance to that centre.
    Libraries that start at the mean, or take the scale there, fail with one update at 1e8. With a fixed smoothing, the
    result for small gradients is the mean. Where the median distance is 0, the start is the result.

    With p other than 2 the weights are 1 / distance in l_p: bounded influence, but not the minimiser of the sum of l_p
    distances, and convergence is not guaranteed. A pass over the data costs more than anything done with n weights, so
    the passes are extrapolated (Anderson [3]_), which saves more than half of them. ``minimises=True`` gives the
    minimiser, which is not a combination of the updates and needs additional vectors of d numbers: reweighted means of
    each coordinate, with steps that descend. At p = 1 it is the median of each coordinate. `paper_pool` and
    `default_pool` use the weights, which are cheaper.

    The coefficient is that of Allouah et al. [2]_ for p = 2; for other norms it is multiplied by
    :math:`d^{|1 - 2/p|}`, which is ours. It holds for minimisers: the argument needs only the triangle inequality, in
    l_p.

    References
    ----------
    .. [1] Pillutla, Kakade, Harchaoui, "Robust Aggregation for Federated Learning", IEEE TSP 2022.
    .. [2] Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by Mixing: A Recipe for Optimal Byzantine ML
       under Heterogeneity", AISTATS 2023.
    .. [3] Anderson, "Iterative Procedures for Nonlinear Integral Equations", Journal of the ACM, 1965.
    """

    p: float = field(default=2.0, kw_only=True)
    tolerance: float = field(default=1e-6, kw_only=True)
    limit: int | None = field(default=None, kw_only=True)
    minimises: bool = field(default=False, kw_only=True)

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(n^2 d); p other than 2: O(n d) an iteration"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("GeometricMedian", "tolerance", self.tolerance)
        if self.limit is not None:
            check_count("GeometricMedian", "limit", self.limit)
        if self.minimises and self.p == np.inf:
            refuse("GeometricMedian(minimises=True) needs a finite p and got p = inf, where there are no derivatives.")

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return (n - 1) // 2

    def decide(self, updates: Updates) -> Point:
        if self.p == 2.0:
            return self._euclidean(updates)
        return self._minimiser(updates) if self.minimises else decide_by_steps(self, updates)

    def _minimiser(self, updates: Updates) -> Point:
        if self.p == 1.0:
            return updates.columns(Median())
        point, steps, residual = minimiser(updates, float(self.p), float(self.tolerance), self.limit or 200)
        self._warn(steps, residual)
        return point.with_facts(iterations=steps, residual=residual)

    def _euclidean(self, updates: Updates) -> Point:
        roughly = updates.roughly_about_medoid()
        found = None if roughly is None else self._corrected(updates, *roughly)
        if found is not None:
            return found
        middle, products, distances = updates.about_medoid()
        return self._iterated(updates, distances, products, middle, np.ones(updates.n))

    def _corrected(self, updates: Updates, middle: int, products: Floats, distances: Floats) -> Point | None:
        """From rough distances: one more step by exact ones, if that leads no farther than a tenth of the tolerance."""
        point = self._iterated(updates, distances, products, middle, np.ones(updates.n))
        away = updates.distances_to_each([point], [2.0])[0]
        scale = median(away)
        if scale == 0.0:
            return None
        aim = inverse_weights(away, scale, SMOOTHING)
        step = aim - point.weights
        moved = max(float(step @ products @ step), 0.0) ** 0.5
        return updates.combine(aim, **point.facts) if moved <= 0.1 * self.tolerance * scale else None

    def _iterated(
        self, updates: Updates, distances: Floats, products: Floats, middle: int, mass: Floats
    ) -> Combination:
        limit = self.limit or 10_000
        found = euclidean_median(distances, products, middle, mass, SMOOTHING, float(self.tolerance), limit)
        return self._finish(updates, *found)

    def takes_weights(self) -> bool:
        return self.p == 2.0

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        middle, products, distances = updates.about_weighted_medoid(weighting.mass)
        return self._iterated(updates, distances, products, middle, weighting.mass)

    def weighted_kappa(self, share: float, d: int) -> float | None:
        return 4 * (1 + share / (1 - 2 * share)) ** 2 * norm_factor(d, self.p)

    def asks(self) -> Asks:
        return Asks.distances(2) if self.p == 2.0 else Asks()

    def steps(self, updates: Updates) -> Steps | None:
        return None if self.p == 2.0 or self.minimises else self._passes(updates)

    def _passes(self, updates: Updates) -> Steps:
        p = float(self.p)
        distances = yield Query(updates.columns(Median()), p)
        scale = median(distances)
        if scale == 0.0:
            return updates.columns(Median(), iterations=0, residual=0.0)
        weights = inverse_weights(distances, scale, SMOOTHING)
        best, least = weights, np.inf
        stale, plain = 0, False
        limit = self.limit or 100
        tried: list[tuple[Floats, Floats]] = []  # weights, and the weights that Weiszfeld makes of them
        for iteration in range(1, limit + 1):
            aim = inverse_weights((yield Query(updates.combine(weights), p)), scale, SMOOTHING)
            residual = float(np.abs(aim - weights).max() / weights.max())
            if residual <= self.tolerance:
                return self._finish(updates, aim, iteration, residual)
            stale += 1
            if residual < least:
                best, least, stale = aim, residual, 0
            elif stale > 2 * _MEMORY and not plain:
                # Extrapolation does not converge: continue from the best by plain steps.
                weights, plain = best, True
                continue
            tried = [*tried[-_MEMORY:], (weights, aim)]
            weights = aim if plain else _extrapolated(tried)
        return self._finish(updates, best, limit, least)

    def _finish(self, updates: Updates, weights: Floats, iterations: int, residual: float) -> Combination:
        self._warn(iterations, residual)
        return updates.combine(weights, iterations=iterations, residual=residual)

    def _warn(self, iterations: int, residual: float) -> None:
        if residual > self.tolerance:
            warnings.warn(
                f"{self!r} stopped after {iterations} iterations with a residual of {residual:.2g}, above its "
                f"tolerance of {self.tolerance:.2g}. The best value is returned. Raise limit= or tolerance=.",
                RuntimeWarning,
                stacklevel=7,
            )

    def kappa(self, n: int, f: int, d: int) -> float | None:
        return 4 * (1 + f / (n - 2 * f)) ** 2 * norm_factor(d, self.p)


def _extrapolated(tried: list[tuple[Floats, Floats]]) -> Floats:
    return extrapolated(np.array([weights for weights, _ in tried]), np.array([aim for _, aim in tried]))
