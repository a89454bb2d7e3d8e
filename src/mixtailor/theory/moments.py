"""The moments that almost sure convergence asks for: their constants, proved, and estimated from recorded gradients."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mixtailor._checks import check_count, check_f, refuse
from mixtailor.theory._needs import Floats, at_least, more_than
from mixtailor.theory.estimates import Interval
from mixtailor.theory.states import State, check_states

__all__ = ["ORDERS", "Moments", "estimate_moments", "moment_constant"]

ORDERS = (2, 3, 4)


def moment_constant(kappa: float, r: float) -> float:
    r"""The constant of Theorems 1 and 2 of the paper, for any rule with a coefficient kappa.

    .. math:: E \lVert U \rVert^r \le (1 + \kappa)^{r/2} \, E \lVert G \rVert^r, \qquad r \ge 2

    G is the gradient of an honest worker drawn uniformly at random. The paper says that there is a constant; this is
    one.

    Parameters
    ----------
    kappa : float
        The rule's coefficient: ``krum_coefficient(n, f, d, p)``, or ``rule.kappa(n, f, d)``.
    r : float
        The order, 2 or more; the theorems use 2, 3 and 4.

    Examples
    --------
    >>> from mixtailor.theory.bounds import krum_coefficient
    >>> [round(moment_constant(krum_coefficient(12, 2), r), 2) for r in (2, 3, 4)]
    [6.05, 14.9, 36.66]

    Notes
    -----
    The proof. Let m be the mean of the h honest updates, q the mean of their squared lengths, and ``v = q - |m|^2``
    their variance. Then ``|U| <= |m| + sqrt(kappa v)``, which for a given q is largest where ``|m|^2 = q / (1 +
    kappa)``, and is sqrt((1 + kappa) q) there. For r >= 2, the mean of r-th powers is at least q^(r/2). Expectations of
    both sides give the inequality, since the mean over the workers of ``E |V_i|^r`` is ``E |G|^r``: Assumption 2 of the
    paper is not needed, nor that workers are alike. For a mixture, the constant is the mean of those of its rules.

    References
    ----------
    .. [1] Ramezani-Kebrya et al., "MixTailor", TMLR 2022, Theorems 1 and 2.
    """
    size = at_least("moment_constant", "kappa", kappa, 0.0)
    return math.pow(1.0 + size, at_least("moment_constant", "r", r, 2.0) / 2.0)


@dataclass(frozen=True)
class Moments:
    """The constants of the paper's Assumption 2 on recorded states.

    Attributes
    ----------
    constants : tuple of tuples of Interval
        K_{r,i} for each order r of `ORDERS` and each honest worker i: the largest over the states of
        ``E |V_i|^r / E |G|^r``.
    largest : tuple of Interval
        The largest over the workers, for each order.
    states, workers, resamples : int
        What was seen; `resamples` is the smallest number at any state.
    confidence : float
        The confidence of each interval by itself.
    """

    constants: tuple[tuple[Interval, ...], ...]
    largest: tuple[Interval, ...]
    states: int
    workers: int
    resamples: int
    confidence: float

    def __str__(self) -> str:
        head = (
            f"{self.states} states, {self.workers} honest workers, {self.resamples} resamples, "
            f"{self.confidence:.0%} intervals"
        )
        lines = [f"  K_{r},i  up to {found}" for r, found in zip(ORDERS, self.largest, strict=True)]
        return "\n".join([head, *lines])


def estimate_moments(
    states: Iterable[State], f: int, *, confidence: float = 0.95, draws: int = 1000, seed: int = 0
) -> Moments:
    r"""Estimate the constants of the paper's Assumption 2 from recorded gradients.

    .. math:: K_{r,i} = \max_s \frac{E \lVert V_i \rVert^r}{\frac1h \sum_j E \lVert V_j \rVert^r}, \qquad r = 2, 3, 4

    Parameters
    ----------
    states : iterable of State
        As `certify` takes them; at least 2 resamples at each.
    f : int
        How many of the workers are Byzantine: the last f of each state are left out.
    confidence : float
        Of each interval.
    draws : int
        Bootstrap draws.
    seed : int
        Of the bootstrap; equal seeds give equal intervals.

    Examples
    --------
    Workers that are alike have constants near 1; one whose gradients are twice as long has more.

    >>> rng = np.random.default_rng(0)
    >>> updates = 1.0 + 0.1 * rng.normal(size=(20, 6, 50))
    >>> updates[:, 0] *= 2.0
    >>> print(estimate_moments([State(updates, np.ones(50))], f=1))
    1 states, 5 honest workers, 20 resamples, 95% intervals
      K_2,i  up to 2.5... [2.4..., 2.5...]
      K_3,i  up to 3.3... [3.3..., 3.3...]
      K_4,i  up to 4.0... [3.9..., 4.0...]

    Notes
    -----
    Between 0 and the number of honest workers, by definition. Intervals are the bootstrap's, over resamples, with the
    workers of one resample drawn together; a maximum over states and workers has the largest of their ends, so that
    its lower end is too high where there are many. They say nothing of states that were not recorded.

    References
    ----------
    .. [1] Ramezani-Kebrya et al., "MixTailor", TMLR 2022, Assumption 2.
    """
    who = "estimate_moments"
    check_f(who, f)
    check_count(who, "draws", draws, 20)
    level = more_than(who, "confidence", confidence, 0.0)
    if level >= 1.0:
        refuse(f"{who} needs confidence below 1 and got {level:g}.")
    known = check_states(who, states, resamples=2)
    honest = known[0].workers - f
    if honest < 1:
        refuse(f"{who} needs f below the {known[0].workers} workers of the states and got f = {f}.")
    rng = np.random.default_rng(seed)
    found = np.array([_ratios(state.norms(honest), level, draws, rng) for state in known])
    worst = found.max(axis=0)  # over states: ends x orders x workers
    constants = tuple(tuple(_interval(worst[:, k, i]) for i in range(honest)) for k in range(len(ORDERS)))
    largest = tuple(_interval(worst[:, k].max(axis=1)) for k in range(len(ORDERS)))
    return Moments(constants, largest, len(known), honest, min(state.resamples for state in known), level)


def _interval(ends: Floats) -> Interval:
    return Interval(*(float(end) for end in ends))


def _ratios(norms: Floats, level: float, draws: int, rng: np.random.Generator) -> Floats:
    """The ratios of one state, and the ends of their intervals: (3, orders, workers)."""
    r = len(norms)
    scale = float(norms.max())
    if scale == 0.0:
        refuse("estimate_moments needs gradients that are not all zero.")
    powers = np.stack([(norms / scale) ** order for order in ORDERS])  # orders x resamples x workers
    weights = rng.multinomial(r, np.full(r, 1.0 / r), size=draws) / r

    def ratio(means: Floats) -> Floats:
        return np.asarray(means / means.mean(axis=-1, keepdims=True))

    value = ratio(powers.mean(axis=1))
    copies = ratio(np.einsum("br,kri->bki", weights, powers))
    tail = (1.0 - level) / 2.0
    low, high = value + math.sqrt(r / (r - 1)) * (np.quantile(copies, [tail, 1.0 - tail], axis=0) - value)
    return np.stack([value, low, high])
