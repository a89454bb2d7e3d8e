"""Comed and the trimmed mean, solved: which results f Byzantine updates can reach, and the rows that reach them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mixtailor._types import Floats
from mixtailor.rules import Comed, Rule, TrimmedMean
from mixtailor.updates import Updates
from mixtailor.updates.reader import values

__all__ = ["Box", "Reach", "box_of", "order_weights", "row_for"]

_FINER = 60  # steps that narrow a bracket by a factor of 1e12
_GRID = 200


def order_weights(rule: Rule, n: int) -> Floats | None:
    """The weights of a columnwise rule on the n sorted values of a coordinate; None for rules of another kind.

    Examples
    --------
    >>> from mixtailor import Comed, TrimmedMean
    >>> order_weights(Comed(), 4), order_weights(TrimmedMean(f=1), 4)
    (array([0. , 0.5, 0.5, 0. ]), array([0. , 0.5, 0.5, 0. ]))
    """
    if isinstance(rule, Comed):
        trimmed = (n - 1) // 2
    elif isinstance(rule, TrimmedMean):
        trimmed = rule.f
    else:
        return None
    weights = np.zeros(n)
    weights[trimmed : n - trimmed] = 1.0 / (n - 2 * trimmed)
    return weights


@dataclass(frozen=True, eq=False)
class Reach:
    r"""What f Byzantine updates can make of a columnwise rule.

    In one coordinate, with the honest values :math:`y_1 \le \ldots \le y_m` and f equal values b beside them, the
    result is

    .. math:: T(b) = \sum_j w_j \min(\max(b, y_{j - f}), y_j), \qquad y_j = -\infty \text{ for } j < 1,
        \; \infty \text{ for } j > m

    which does not decrease in b and has no gaps: equal values reach everything that any f values reach.

    Attributes
    ----------
    ordered, results : array, m x d
        The honest values of each coordinate in order, and T there.
    slopes : tuple of float
        The slope of T below the smallest and above the largest honest value.
    low, high : array
        The smallest and the largest result in each coordinate.
    """

    ordered: Floats
    results: Floats
    slopes: tuple[float, float]
    low: Floats
    high: Floats

    @classmethod
    def of(cls, honest: Floats, weights: Floats) -> "Reach":
        """The reach of f = n - m rows, from m honest updates, m > 1, and the rule's weights on n sorted values."""
        m, f = len(honest), len(weights) - len(honest)
        ordered = np.sort(honest, axis=0)
        below = np.vstack([np.zeros(honest.shape[1]), np.cumsum(weights[:m, None] * ordered, axis=0)])
        above = np.cumsum((weights[f:, None] * ordered)[::-1], axis=0)[::-1]
        above = np.vstack([above, np.zeros(honest.shape[1])])
        share = np.array([weights[i : i + f].sum() for i in range(m + 1)])
        results = below[1:] + share[1:, None] * ordered + above[1:]
        # Rounding must not make a function fall that does not.
        results = np.maximum.accumulate(results, axis=0)
        slopes = float(share[0]), float(share[-1])
        low = results[0] if slopes[0] == 0.0 else np.full(honest.shape[1], -math.inf)
        high = results[-1] if slopes[1] == 0.0 else np.full(honest.shape[1], math.inf)
        return cls(ordered, results, slopes, low, high)

    def values_for(self, results: Floats) -> Floats:
        """The value b of each coordinate with which the rule gives these results, or the nearest that it can give."""
        wanted = np.clip(results, self.low, self.high)
        columns = np.arange(len(wanted))
        place = np.clip((self.results < wanted).sum(axis=0), 1, len(self.ordered) - 1)
        left, right = self.results[place - 1, columns], self.results[place, columns]
        start, stop = self.ordered[place - 1, columns], self.ordered[place, columns]
        share = np.divide(wanted - left, right - left, out=np.zeros(len(wanted)), where=right > left)
        inside = start + np.clip(share, 0.0, 1.0) * (stop - start)
        first, last = self.ordered[0], self.ordered[-1]
        if self.slopes[0] > 0.0:
            inside = np.where(wanted < self.results[0], first - (self.results[0] - wanted) / self.slopes[0], inside)
        if self.slopes[1] > 0.0:
            inside = np.where(wanted > self.results[-1], last + (wanted - self.results[-1]) / self.slopes[1], inside)
        return np.asarray(inside)


@dataclass(frozen=True, eq=False)
class Box:
    """The results that can be reached: everything between two ends, in each coordinate.

    Attributes
    ----------
    low, high : array
        The ends; infinite where the rule has no bound.
    """

    low: Floats
    high: Floats

    def largest(self, direction: Floats, origin: Floats, highest: float) -> float | None:
        """The largest lambda up to `highest` for which ``origin - lambda direction`` can be reached; None for none."""
        low, high = self.low - origin, self.high - origin
        still, size = direction == 0.0, np.where(direction == 0.0, 1.0, np.abs(direction))
        if bool((still & ((low > 0.0) | (high < 0.0))).any()):
            return None
        # low <= -lambda direction <= high, divided by minus the direction.
        top = np.where(direction > 0.0, -low, high) / size
        bottom = np.where(direction > 0.0, -high, low) / size
        above = float(np.min(top[~still], initial=highest))
        return above if above > 0.0 and above >= float(np.max(bottom[~still], initial=0.0)) else None

    def nearest(self, direction: Floats, origin: Floats, highest: float, tolerance: float) -> Floats:
        """The result that is least off the ray ``origin - t direction``.

        Among results within `tolerance` radians of the ray, the longest. If some result is less than a right angle off,
        the one that is least off is the one nearest to *some* point of the ray, so that one number is all there is to
        search. Otherwise it is a corner of the box, and `_corner` finds one that is least off or nearly so.
        """
        corner = self._corner(direction, origin)
        if corner is not None:
            return corner
        size = self._size(direction, origin, highest, tolerance)
        return np.asarray(np.clip(origin - size * direction, self.low, self.high))

    def _corner(self, direction: Floats, origin: Floats) -> Floats | None:
        r"""A corner of the box that is least off the ray; None if some result is less than a right angle off.

        Then :math:`\langle x, g \rangle / |x|` is not negative anywhere, and least at a corner. The corners that are
        least in :math:`\langle x, g \rangle - \mu |x|^2` for some :math:`\mu` are tried, d + 1 of them.
        """
        low, high = self.low - origin, self.high - origin
        near, far = np.where(direction > 0.0, low, high), np.where(direction > 0.0, high, low)
        inner = float(np.where(direction == 0.0, 0.0, near * direction).sum())
        if not 0.0 <= inner < math.inf or not (np.isfinite(near) & np.isfinite(far)).all():
            return None
        longer = far * far - near * near
        turning = np.flatnonzero(longer > 0.0)
        order = turning[np.argsort((direction * (far - near))[turning] / longer[turning], kind="stable")]
        inners = inner + np.concatenate([[0.0], np.cumsum((direction * (far - near))[order])])
        squares = float(near @ near) + np.concatenate([[0.0], np.cumsum(longer[order])])
        if not squares[-1] > 0.0:
            return None
        cosines = np.divide(inners, np.sqrt(squares), out=np.full(len(squares), math.inf), where=squares > 0.0)
        turned = order[: int(np.argmin(cosines))]
        near[turned] = far[turned]
        return np.asarray(origin + near)

    def _size(self, direction: Floats, origin: Floats, highest: float, tolerance: float) -> float:
        """The size t for which the result nearest to ``origin - t direction`` is least off that ray."""
        grid = np.geomspace(1e-6, highest, _GRID)
        length = float(np.linalg.norm(direction))

        def off(t: float) -> float:
            found = np.clip(origin - t * direction, self.low, self.high) - origin
            size = float(np.linalg.norm(found)) * length
            return math.pi if size == 0.0 else math.acos(max(-1.0, min(1.0, -float(found @ direction) / size)))

        found = [off(float(t)) for t in grid]
        best = int(np.argmin(found))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)])
        least = _narrowed(off, low, high)
        least = min((least, float(grid[best])), key=off)
        if off(least) > tolerance:
            return least
        good, bad = least, highest
        if off(bad) <= tolerance:
            return bad
        for _ in range(_FINER):
            middle = math.sqrt(good * bad)
            good, bad = (middle, bad) if off(middle) <= tolerance else (good, middle)
        return good


def _narrowed(value: Callable[[float], float], low: float, high: float) -> float:
    """The least value between two positive numbers, by thirds of their logarithm."""
    for _ in range(_FINER):
        ratio = (high / low) ** (1.0 / 3.0)
        first, second = low * ratio, high / ratio
        low, high = (low, second) if value(first) <= value(second) else (first, high)
    return math.sqrt(low * high)


def box_of(honest: Updates, weights: Floats) -> Box:
    """What f updates beside some updates can reach; one pass, which holds one range of coordinates at a time."""
    low, high = np.empty(honest.d), np.empty(honest.d)

    def use(start: int, stop: int, reach: Reach) -> None:
        low[start:stop], high[start:stop] = reach.low, reach.high

    _over_ranges(honest, weights, use)
    return Box(low, high)


def row_for(honest: Updates, weights: Floats, results: Floats) -> Floats:
    """The row that, sent f times, makes the rule give these results, or the nearest that it can give."""
    row = np.empty(honest.d)

    def use(start: int, stop: int, reach: Reach) -> None:
        row[start:stop] = reach.values_for(results[start:stop])

    _over_ranges(honest, weights, use)
    return row


def _over_ranges(honest: Updates, weights: Floats, use: Callable[[int, int, Reach], None]) -> None:
    rows = [honest.row(i) for i in range(honest.n)]

    def visit(start: int, stop: int) -> float:
        block = np.stack([honest.space.host(values(row, start, stop)) for row in rows])
        use(start, stop, Reach.of(block, weights))
        return 0.0

    honest.reader.collect(visit, honest.source.runs())
