"""Estimates of the numbers that the theory asks for, from recorded gradients."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from mixtailor._checks import check_count, check_f, refuse
from mixtailor.theory._needs import Floats, an_array, more_than

__all__ = ["Estimate", "Interval", "estimate"]


@dataclass(frozen=True)
class Interval:
    """An estimate between two ends; the ends hold it with the confidence that was asked for."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.6g} [{self.low:.6g}, {self.high:.6g}]"


@dataclass(frozen=True)
class Estimate:
    """What the recorded gradients say about the theory's constants; each is the worst over the states.

    Attributes
    ----------
    sigma : Interval
        Noise: the largest ``sqrt(E |V_i - g_i|^2)`` over workers and states.
    delta : Interval
        Heterogeneity: the largest ``sqrt(mean_i |g_i - grad F|^2)`` over states.
    lipschitz : Interval
        L: the largest ``|grad F|`` over states (the Lipschitz constant of F, not of its gradient).
    angle : Interval
        The largest angle over states, in radians, between grad F and a worker's gradient:
        ``arccos(E[V . grad F] / (|grad F| sqrt(E |V|^2)))``.
    theta : Interval or None
        The largest angle over states between w and grad F, where the models were given.
    states, workers, resamples : int
        What was seen; `resamples` is the smallest number at any state.
    confidence : float
        The confidence of each interval by itself.
    """

    sigma: Interval
    delta: Interval
    lipschitz: Interval
    angle: Interval
    theta: Interval | None
    states: int
    workers: int
    resamples: int
    confidence: float

    def __str__(self) -> str:
        theta = "" if self.theta is None else f"\n  theta  {self.theta}"
        return (
            f"{self.states} states, {self.workers} workers, {self.resamples} resamples, "
            f"{self.confidence:.0%} intervals\n"
            f"  sigma  {self.sigma}\n"
            f"  Delta  {self.delta}\n"
            f"  L      {self.lipschitz}\n"
            f"  angle  {self.angle}" + theta
        )


def estimate(
    gradients: Iterable[ArrayLike],
    *,
    truths: Iterable[ArrayLike] | None = None,
    models: Iterable[ArrayLike] | None = None,
    confidence: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Estimate:
    r"""Estimate sigma, Delta, L and the angle from honest gradients recorded at several states.

    .. math:: \sigma^2 = \max_{s, i} E \lVert V_i - g_i \rVert^2, \quad
        \Delta^2 = \max_s \frac1h \sum_i \lVert g_i - \nabla F \rVert^2, \quad
        L = \max_s \lVert \nabla F \rVert

    Each is freed of the noise that the means of R resamples carry: with :math:`s_i^2` the unbiased variance of
    worker i and :math:`\bar s^2` their mean, :math:`(1 - 1/h) \bar s^2 / R` leaves Delta^2 and
    :math:`\bar s^2 / (hR)` leaves L^2.

    Parameters
    ----------
    gradients : array of shape (states, workers, resamples, d), or an iterable of (workers, resamples, d) blocks
        Independent resamples of each honest worker's gradient; at least 2 at each state. Blocks are read one
        after the other, and only inner products of their updates are kept.
    truths : array of shape (states, d), or an iterable of d-vectors, optional
        grad F from a full pass or a large held-out batch, independent of the updates, and taken as exact. Where not
        given, grad F is the mean of the honest workers' gradients.
    models : array of shape (states, d), or an iterable of d-vectors, optional
        w at each state, for theta.
    confidence : float
        Of each interval.
    draws : int
        Bootstrap draws.
    seed : int
        Of the bootstrap; equal seeds give equal intervals.

    Examples
    --------
    Four workers with noise of variance 1 in each of 100 coordinates, around a gradient of length 20.

    >>> rng = np.random.default_rng(1)
    >>> print(estimate(2.0 + rng.standard_normal((1, 4, 25, 100))))
    1 states, 4 workers, 25 resamples, 95% intervals
      sigma  10.0... [9.6..., 10.3...]
      Delta  0.5... [0, 1.2...]
      L      19.9... [19.6..., 20.0...]
      angle  0.4... [0.4..., 0.4...]

    Notes
    -----
    Bias and standard error come from the bootstrap over resamples, for each state (for sigma, for each worker at each
    state), widened by sqrt(R/(R - 1)); the ends are normal quantiles, for sigma on the scale of its logarithm. For the
    maximum over k of them, the upper end is the largest upper end, and the lower end the largest lower end at 1/k of
    its level, so that the maximum of many noisy estimates is not taken for a large constant. With fewer than about 10
    resamples, or with noise in fewer than about 10 directions, the intervals are too short. They say nothing of states
    that were not recorded: the theory's suprema are over all w.
    """
    who = "estimate"
    level = more_than(who, "confidence", confidence, 0.0)
    if level >= 1.0:
        refuse(f"{who} needs confidence below 1 and got {level:g}.")
    check_count(who, "draws", draws, 20)
    check_f(who, seed)
    rng = np.random.default_rng(seed)
    states = [
        _State(block, truth, model, draws, rng) for block, truth, model in _together(who, gradients, truths, models)
    ]
    if not states:
        refuse(f"{who} needs at least one state and got none.")
    workers = {state.workers for state in states}
    if len(workers) > 1:
        refuse(f"{who} needs the same workers at every state and got {sorted(workers)} of them.")
    tail = (1.0 - level) / 2.0

    def root(units: list["_Unit"]) -> Interval:
        return _largest(units, tail, lambda square: math.sqrt(max(square, 0.0)))

    def angle(units: list["_Unit"]) -> Interval:
        # The largest angle is the smallest cosine, so the units are handed over with their signs turned.
        return _largest([unit.negative() for unit in units], tail, lambda minus: math.acos(min(1.0, max(-1.0, -minus))))

    return Estimate(
        sigma=root([unit for state in states for unit in state.variances]),
        delta=root([state.heterogeneity for state in states]),
        lipschitz=root([state.gradient for state in states]),
        angle=angle([state.cosine for state in states]),
        theta=None if models is None else angle([state.alignment for state in states if state.alignment is not None]),
        states=len(states),
        workers=workers.pop(),
        resamples=min(state.resamples for state in states),
        confidence=level,
    )


@dataclass(frozen=True)
class _Unit:
    """One number at one state: its estimate, with the bias and the standard error that the bootstrap gives it."""

    value: float
    bias: float
    error: float
    positive: bool = False

    def end(self, deviations: float) -> float:
        """The end of the interval that is so many standard errors away."""
        if self.positive and self.value > 0.0:
            # A variance's error grows with it, so that its logarithm is the scale on which both ends are as far.
            return self.value * math.exp(deviations * self.error / self.value)
        return self.value - self.bias + deviations * self.error

    def negative(self) -> "_Unit":
        return _Unit(-self.value, -self.bias, self.error)


class _State:
    """The estimates of one state. Everything is in the inner products of its rows about their mean."""

    def __init__(
        self, block: ArrayLike, truth: ArrayLike | None, model: ArrayLike | None, draws: int, rng: np.random.Generator
    ) -> None:
        rows = an_array("estimate", "gradients at each state", block, 3)
        self.workers, self.resamples, d = rows.shape
        h, r = self.workers, self.resamples
        if r < 2:
            refuse(f"estimate needs at least 2 resamples of each worker's gradient and got {r}.")
        centre = rows.mean(axis=(0, 1))
        about = (rows - centre).reshape(h * r, d)
        given = None if truth is None else _vector("truths", truth, d)
        weights = None if model is None else _vector("models", model, d)
        self.products = about @ about.T
        self.to_centre = about @ centre
        self.centre = float(centre @ centre)
        self.to_truth = None if given is None else (about @ given, float(centre @ given), float(given @ given))
        self.to_model = (
            None if weights is None else (about @ weights, float(centre @ weights), float(weights @ weights))
        )
        self.between = 0.0 if given is None or weights is None else float(given @ weights)
        if self.to_truth is not None and self.to_truth[2] == 0.0:
            refuse("estimate needs truths that are not zero: the angle to a zero gradient is not defined.")
        if self.to_model is not None and self.to_model[2] == 0.0:
            refuse("estimate needs models that are not zero: the angle to a zero model is not defined.")

        once = np.full((1, h, r), 1.0 / r)
        drawn = rng.multinomial(r, np.full(r, 1.0 / r), size=(draws, h)) / r
        values = self._statistics(once, noise=True)
        # In the bootstrap's world the recorded rows are the whole truth, so nothing is taken off for noise.
        exact = self._statistics(once, noise=False)
        again = self._statistics(drawn, noise=True)
        wider = math.sqrt(r / (r - 1))
        units = []
        for position, (value, actual, copies) in enumerate(zip(values, exact, again, strict=True)):
            deviations = wider * (copies - actual[0])
            units.append(_Unit(float(value[0]), float(deviations.mean()), float(deviations.std()), position < h))
        self.variances = units[:h]
        self.heterogeneity, self.gradient, self.cosine = units[h : h + 3]
        self.alignment = units[h + 3] if weights is not None else None

    def _statistics(self, weights: Floats, *, noise: bool) -> list[Floats]:
        """Variance of each worker, Delta^2, |grad F|^2, the worker's cosine and, with a model, its cosine."""
        b, h, r = weights.shape
        flat = weights.reshape(b, h * r)
        blocks = self.products.reshape(h, r, h, r)
        within = blocks[np.arange(h), :, np.arange(h), :]
        squares = np.diagonal(self.products).reshape(h, r)
        means = np.einsum("bir,irs,bis->bi", weights, within, weights, optimize=True)
        spread = (weights * squares).sum(axis=2)
        variances = np.maximum(spread - means, 0.0) * (r / (r - 1) if noise else 1.0)
        carried = variances.mean(axis=1) / r if noise else np.zeros(b)
        middle = ((flat @ self.products) * flat).sum(axis=1) / h**2
        shift = flat @ self.to_centre / h
        length = self.centre + 2.0 * shift + middle
        rms = np.sqrt(self.centre + 2.0 * shift + spread.mean(axis=1))
        if self.to_truth is None:
            heterogeneity = means.mean(axis=1) - middle - (1.0 - 1.0 / h) * carried
            gradient = length - carried / h
            inner = gradient
        else:
            rows, centre, square = self.to_truth
            toward = flat @ rows / h + centre
            heterogeneity = means.mean(axis=1) + self.centre + 2.0 * shift - 2.0 * toward + square - carried
            gradient = np.full(b, square)
            inner = toward
        norm = np.sqrt(np.maximum(gradient, 0.0))
        results = [variances[:, i] for i in range(h)] + [heterogeneity, gradient, _ratio(inner, norm * rms)]
        if self.to_model is not None:
            rows, centre, square = self.to_model
            if self.to_truth is None:
                results.append(_ratio(flat @ rows / h + centre, norm * math.sqrt(square)))
            else:
                results.append(np.full(b, self.between / math.sqrt(square * self.to_truth[2])))
        return results


def _ratio(above: Floats, below: Floats) -> Floats:
    # Noise may leave nothing of |grad F|: no direction is seen then, and the cosine counts as 0.
    quotient: Floats = np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)
    return quotient


def _largest(units: list[_Unit], tail: float, transform: Callable[[float], float]) -> Interval:
    value = max(unit.value for unit in units)
    high = max(unit.end(NormalDist().inv_cdf(1.0 - tail)) for unit in units)
    # That some unit's lower end is too high happens up to len(units) times as often as for one unit.
    low = max(unit.end(NormalDist().inv_cdf(tail / len(units))) for unit in units)
    return Interval(value=transform(value), low=transform(min(low, value)), high=transform(max(high, value)))


def _vector(name: str, values: ArrayLike, d: int) -> Floats:
    vector = an_array("estimate", f"{name} at each state", values, 1)
    if vector.size != d:
        refuse(f"estimate needs {d} coordinates in {name} at each state, as in gradients, and got {vector.size}.")
    return vector


def _together(
    who: str, gradients: Iterable[ArrayLike], *sides: Iterable[ArrayLike] | None
) -> Iterator[tuple[ArrayLike, ArrayLike | None, ArrayLike | None]]:
    missing = object()
    truths, models = (None if side is None else iter(side) for side in sides)
    for block in gradients:
        beside: list[ArrayLike | None] = []
        for name, side in (("truths", truths), ("models", models)):
            found = None if side is None else next(side, missing)
            if found is missing:
                refuse(f"{who} needs {name} for every state of gradients, and they ended early.")
            beside.append(found)  # type: ignore[arg-type]  # `missing` left in the line above
        yield block, beside[0], beside[1]
    for name, side in (("truths", truths), ("models", models)):
        if side is not None and next(side, missing) is not missing:
            refuse(f"{who} needs as many {name} as states of gradients, and there are more.")
