"""When a mixture of rules descends, though an attack breaks some of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from mixtailor._checks import check_count, refuse
from mixtailor.theory._needs import an_array, at_least, more_than, probabilities_for
from mixtailor.theory.schedules import Schedule, StepSizes, check_step_sizes

__all__ = [
    "Convergence",
    "MixtureCondition",
    "UnequalMixture",
    "convergence_condition",
    "krum_beta",
    "mixture_condition",
    "unequal_mixture",
]


def _as_written(value: float) -> Fraction:
    # The condition is strict, so 0.3 / 0.1 must be 3 and not the quotient of the two nearest binary numbers.
    return Fraction(repr(float(value)))


@dataclass(frozen=True)
class MixtureCondition:
    """Whether M/q is large enough, and what would make it so.

    Attributes
    ----------
    rules, broken : int
        M and q.
    ratio, threshold : float
        M/q (None where nothing is broken) and what it must exceed.
    margin : float
        The lower bound on ``E[U] . grad F`` that the proof gives; the condition holds exactly if it is positive.
    least_rules : int
        The smallest M for which the condition holds with these q broken.
    most_broken : int
        The largest q for which it holds with these M rules.
    """

    rules: int
    broken: int
    ratio: float | None
    threshold: float
    margin: float
    holds: bool
    least_rules: int
    most_broken: int

    def __str__(self) -> str:
        ratio = "nothing is broken" if self.ratio is None else f"M/q = {self.ratio:g}"
        return (
            f"{'holds' if self.holds else 'does not hold'}: {ratio}, needs more than {self.threshold:g}\n"
            f"  E[U] . grad F >= {self.margin:.6g}\n"
            f"  with q = {self.broken} broken, M >= {self.least_rules} would do; "
            f"with M = {self.rules}, q <= {self.most_broken}"
        )


def mixture_condition(rules: int, broken: int, *, largest: float, lipschitz: float, beta: float) -> MixtureCondition:
    r"""The paper's sufficient condition for a uniform mixture, solved for M, for q and for the margin.

    .. math:: \frac{M}{q} > 1 + \frac{\lambda L}{\min_{m'} \beta_{m'}}, \qquad
        E[U]^\top \nabla F \ge \frac{M - q}{M} \min_{m'} \beta_{m'} - \frac{q}{M} \lambda L

    Assumes that each rule that is not broken has ``E[U_m] . grad F >= beta > 0`` at every w, and that all moments in
    the paper's Definition 1 are bounded.

    Parameters
    ----------
    rules, broken : int
        M, the rules of the pool, and q, how many of them the attack breaks.
    largest : float
        lambda, the largest ``|E[U_i]|`` of a broken rule.
    lipschitz : float
        L, the supremum of ``|grad F|`` (the Lipschitz constant of F, not of its gradient).
    beta : float
        The smallest ``E[U_m] . grad F`` of a rule that is not broken.

    Examples
    --------
    >>> print(mixture_condition(64, 16, largest=1.0, lipschitz=2.0, beta=1.0))
    holds: M/q = 4, needs more than 3
      E[U] . grad F >= 0.25
      with q = 16 broken, M >= 49 would do; with M = 64, q <= 21

    Notes
    -----
    The inequality is strict and is decided on the numbers as they are written in decimals, so that 0.3/0.1 is 3.
    Rules with similar results are broken alike: count clusters of rules, not rules (`cluster_results`).

    References
    ----------
    .. [1] Ramezani-Kebrya et al., "MixTailor", TMLR 2022, Proposition 1.
    """
    who = "mixture_condition"
    check_count(who, "rules", rules)
    check_count(who, "broken", broken, 0)
    if broken > rules:
        refuse(f"{who} needs broken <= rules and got {broken} broken of {rules} rules.")
    harm = _as_written(at_least(who, "largest", largest, 0.0)) * _as_written(at_least(who, "lipschitz", lipschitz, 0.0))
    good = _as_written(more_than(who, "beta", beta, 0.0))
    threshold = 1 + harm / good
    margin = (rules - broken) * good / rules - broken * harm / rules
    return MixtureCondition(
        rules=int(rules),
        broken=int(broken),
        ratio=rules / broken if broken else None,
        threshold=float(threshold),
        margin=float(margin),
        holds=margin > 0,
        least_rules=max(1, math.floor(broken * threshold) + 1),
        most_broken=math.ceil(rules / threshold) - 1,
    )


@dataclass(frozen=True)
class UnequalMixture:
    """The inner product of a mixture's expected result with grad F.

    Attributes
    ----------
    value : float
        ``sum_i p_i E[U_i] . grad F``.
    broken_share : float
        The probability of drawing a rule whose product is negative.
    allowed_share : float
        Below this probability of the broken rules the mixture holds, whatever the rest, by the worst broken and the
        least good product; 1 where nothing is broken, 0 where nothing is good.
    """

    value: float
    holds: bool
    broken: tuple[int, ...]
    broken_share: float
    allowed_share: float

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "does not hold"
        return (
            f"{verdict}: E[U] . grad F = {self.value:.6g}\n"
            f"  broken rules are drawn with probability {self.broken_share:.4g}; "
            f"any share below {self.allowed_share:.4g} would do"
        )


def unequal_mixture(products: ArrayLike, probabilities: ArrayLike | None = None) -> UnequalMixture:
    r"""The mixture's condition for any probabilities.

    .. math:: \sum_i p_i E[U_i]^\top \nabla F > 0

    Parameters
    ----------
    products : array of M numbers
        ``E[U_i] . grad F`` of each rule under the attack.
    probabilities : array of M numbers, optional
        How often each rule is drawn; uniform where not given.

    Examples
    --------
    One rule in three is broken; drawn less often, it does no harm.

    >>> unequal_mixture([1.0, 1.0, -4.0]).holds
    False
    >>> print(unequal_mixture([1.0, 1.0, -4.0], [0.45, 0.45, 0.1]))
    holds: E[U] . grad F = 0.5
      broken rules are drawn with probability 0.1; any share below 0.2 would do

    References
    ----------
    .. [1] Ramezani-Kebrya et al., "MixTailor", TMLR 2022, Definition 1; the paper has equal probabilities.
    """
    values = an_array("unequal_mixture", "products", products, 1)
    shares = probabilities_for("unequal_mixture", values.size, probabilities)
    broken = values < 0.0
    value = math.fsum(shares * values)
    if not broken.any():
        allowed = 1.0
    elif broken.all():
        allowed = 0.0
    else:
        good, harm = float(values[~broken].min()), -float(values.min())
        allowed = good / (good + harm)
    return UnequalMixture(
        value=value,
        holds=value > 0.0,
        broken=tuple(int(i) for i in np.flatnonzero(broken)),
        broken_share=math.fsum(shares[broken]),
        allowed_share=allowed,
    )


def krum_beta(update_norm: float, gradient_norm: float, bound: float) -> float:
    r"""The beta of generalized Krum that the mixture's condition asks for.

    .. math:: \beta_m = \tfrac{1}{2} \left( \lVert E[U] \rVert^2 + \lVert \nabla F \rVert^2 - C_1 - C_2 \Lambda \right)
        \quad \le E[U]^\top \nabla F

    Parameters
    ----------
    update_norm, gradient_norm : float
        ``|E[U]|`` and ``|grad F|``.
    bound : float
        A bound on ``|E[U] - grad F|^2``: ``krum_bound(...).proved``, or ``.stated`` for the paper's.

    Examples
    --------
    >>> krum_beta(2.0, 3.0, 5.0)
    4.0

    Notes
    -----
    Not positive means that the bound is too weak to show descent, not that there is none.

    References
    ----------
    .. [1] Ramezani-Kebrya et al., "MixTailor", TMLR 2022, proof of Theorem 3.
    """
    update = at_least("krum_beta", "update_norm", update_norm, 0.0)
    gradient = at_least("krum_beta", "gradient_norm", gradient_norm, 0.0)
    return 0.5 * (update**2 + gradient**2 - at_least("krum_beta", "bound", bound, 0.0))


@dataclass(frozen=True)
class Convergence:
    """Whether the assumptions of the paper's Theorem 3 hold, on the states that were given.

    Attributes
    ----------
    beta : float
        Least ``|E[U]|^2`` plus least ``|grad F|^2`` minus the bound; the theorem needs it positive.
    alpha : float
        The largest angle between E[U] and grad F that beta allows; None where beta is not positive.
    theta : float
        The largest angle between w and grad F.
    margin : float
        ``pi/2 - alpha - theta``; the theorem needs it positive. None where alpha is.
    steps : StepSizes
        What is known of the two sums over the step sizes.
    verdict : str
        "holds on these states", "does not hold" or "not decided" (the states allow it, the schedule is not known).
    """

    beta: float
    alpha: float | None
    theta: float
    margin: float | None
    steps: StepSizes
    verdict: str

    def __str__(self) -> str:
        if self.alpha is None or self.margin is None:
            angles = f"alpha needs beta > 0, theta = {self.theta:.4g}"
        else:
            angles = f"alpha = {self.alpha:.4g}, theta = {self.theta:.4g}, pi/2 - alpha - theta = {self.margin:.4g}"
        return f"{self.verdict}: beta = {self.beta:.6g}\n  {angles}\n  {self.steps}"


def convergence_condition(
    update_norms: float | Sequence[float] | ArrayLike,
    gradient_norms: float | Sequence[float] | ArrayLike,
    cosines: float | Sequence[float] | ArrayLike,
    *,
    bound: float,
    steps: float | Schedule,
) -> Convergence:
    r"""The conditions under which generalized Krum's gradients converge to zero almost surely.

    .. math:: \inf \lVert E[U] \rVert^2 + \inf \lVert \nabla F \rVert^2 - C_1 - C_2 \Lambda \ge \beta > 0, \qquad
        \cos \theta \le \inf \frac{w^\top \nabla F}{\lVert w \rVert \lVert \nabla F \rVert}

    .. math:: \alpha = \arccos \frac{\beta}{2 \lVert E[U] \rVert \lVert \nabla F \rVert}, \qquad
        \theta + \sup \alpha < \frac{\pi}{2}, \qquad \sum_t \eta_t = \infty, \quad \sum_t \eta_t^2 < \infty

    Parameters
    ----------
    update_norms, gradient_norms, cosines : float or array of S numbers
        ``|E[U(w)]|``, ``|grad F(w)|`` and the cosine between w and grad F(w), at S states outside the horizon,
        ``|w|^2 >= R``.
    bound : float
        A bound on ``|E[U] - grad F|^2``: ``krum_bound(...).proved``, or ``.stated`` for the paper's.
    steps : float or callable
        The step sizes: a constant, a `PowerSchedule`, or any callable from the step's number to its size.

    Examples
    --------
    >>> from mixtailor.theory.schedules import PowerSchedule
    >>> print(convergence_condition([2.0, 2.1], [2.0, 2.2], [0.9, 0.95], bound=0.5, steps=PowerSchedule(0.1, 0.75)))
    holds on these states: beta = 7.5
      alpha = 0.6238, theta = 0.451, pi/2 - alpha - theta = 0.496
      sum of steps: diverges, as needed; sum of squares: converges, as needed (...)

    Notes
    -----
    The theorem asks this of *every* w outside the horizon, and that F is three times differentiable and not negative
    and that the gradient's moments grow no faster than those of w. A finite set of states can refute it, not show it.

    References
    ----------
    .. [1] Ramezani-Kebrya et al., "MixTailor", TMLR 2022, Theorem 3.
    .. [2] Bottou, "Online Learning and Stochastic Approximations", 1998.
    """
    who = "convergence_condition"
    updates = an_array(who, "update_norms", np.atleast_1d(np.asarray(update_norms)), 1)
    gradients = an_array(who, "gradient_norms", np.atleast_1d(np.asarray(gradient_norms)), 1)
    alignments = an_array(who, "cosines", np.atleast_1d(np.asarray(cosines)), 1)
    if not updates.size == gradients.size == alignments.size:
        refuse(
            f"{who} needs one update norm, gradient norm and cosine for each state, "
            f"and got {updates.size}, {gradients.size} and {alignments.size}."
        )
    if updates.min() < 0.0 or gradients.min() < 0.0:
        refuse(f"{who} needs norms, which are not negative; the least is {min(updates.min(), gradients.min()):g}.")
    if np.abs(alignments).max() > 1.0:
        refuse(f"{who} needs cosines from -1 to 1 and got {alignments[np.abs(alignments).argmax()]:g}.")
    radius = at_least(who, "bound", bound, 0.0)
    apart = (updates - gradients) ** 2
    worst = int(apart.argmax())
    if apart[worst] > radius * (1.0 + 1e-9):
        refuse(
            f"The bound says |E[U] - grad F|^2 <= {radius:g}, but at state {worst} the norms {updates[worst]:g} and "
            f"{gradients[worst]:g} alone are {apart[worst]:g} apart. Use a bound that holds for this rule and attack."
        )
    beta = float(updates.min() ** 2 + gradients.min() ** 2 - radius)
    theta = math.acos(float(alignments.min()))
    known = check_step_sizes(steps)
    alpha = margin = None
    if beta > 0.0:
        # The bound's consistency, checked above, keeps the quotient at most 1 up to rounding.
        alpha = math.acos(min(1.0, beta / float(2.0 * (updates * gradients).max())))
        margin = math.pi / 2.0 - alpha - theta
    if margin is None or margin <= 0.0 or known.verdict == "fail":
        verdict = "does not hold"
    elif known.verdict == "not decided":
        verdict = "not decided"
    else:
        verdict = "holds on these states"
    return Convergence(beta=beta, alpha=alpha, theta=theta, margin=margin, steps=known, verdict=verdict)
