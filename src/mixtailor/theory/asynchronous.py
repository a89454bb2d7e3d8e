"""Conditions for training that does not wait: shares of the weight, scores of single updates, sampled majorities."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mixtailor._checks import check_count, check_f, refuse
from mixtailor.theory._needs import an_array, at_least, finite, more_than
from mixtailor.theory.sampling import sampling_failure

__all__ = ["WeightedShare", "majority_risk", "weighted_share", "zeno_score"]


@dataclass(frozen=True)
class WeightedShare:
    """How much of the weight may be Byzantine.

    Attributes
    ----------
    share : float
        The part of the whole weight that the f heaviest workers have.
    holds : bool
        Whether that is below one half, which every weighted rule needs.
    most : int
        The largest f for which it would be.
    """

    share: float
    holds: bool
    most: int


def weighted_share(weights: ArrayLike, f: int) -> WeightedShare:
    r"""The condition of asynchronous training with weights: Byzantine workers have less than half of the weight.

    .. math:: \lambda = \max_{|B| = f} \frac{\sum_{i \in B} s_i}{\sum_i s_i} < \frac{1}{2}

    Dahan and Levy weigh a worker by the number of updates that it has sent: a fast Byzantine worker then has more than
    1/n of the weight, and it is the share of *updates*, not of workers, that has to be below one half. With weights by
    staleness it is the share of the freshest f. The same number is what ``share=`` of a call is by default.

    Examples
    --------
    Two of ten workers are five times as fast as the others: by updates, they are more than half of the weight.

    >>> weighted_share([5, 5] + [1] * 8, f=2)
    WeightedShare(share=0.5555555555555556, holds=False, most=1)
    >>> weighted_share([1] * 10, f=2).holds
    True

    References
    ----------
    .. [1] Dahan, Levy, "Weight for Robustness: A Comprehensive Approach towards Optimal Fault-Tolerant Asynchronous
       ML", NeurIPS 2024.
    """
    who = "weighted_share"
    masses = np.sort(an_array(who, "weights", weights, 1))[::-1]
    check_f(who, f)
    if masses[-1] < 0.0 or masses[0] <= 0.0:
        refuse(f"{who} needs weights that are not negative, at least one of them positive.")
    if f > masses.size:
        refuse(f"{who} needs f <= n = {masses.size} and got f = {f}.")
    heaviest = np.concatenate([[0.0], np.cumsum(masses)]) / masses.sum()
    below = np.nonzero(heaviest < 0.5)[0]
    return WeightedShare(float(heaviest[f]), bool(heaviest[f] < 0.5), int(below[-1]))


def zeno_score(inner: float, square: float, *, rate: float, rho: float, epsilon: float) -> float:
    r"""How far a single update is above the condition of Zeno++; it is accepted where that is not negative.

    .. math:: \gamma \langle v, g \rangle - \rho \lVert g \rVert^2 + \gamma \epsilon \ge 0

    with the server's own gradient v on a few clean examples, and the update g scaled to the length of v. An update is
    judged alone, so that any number of Byzantine workers is tolerated; what is trusted is the server's data.

    Parameters
    ----------
    inner, square : float
        ``<v, g>`` and ``|g|^2``.
    rate : float
        gamma, the learning rate.
    rho, epsilon : float
        Of the condition: rho > 0 keeps steps short, epsilon >= 0 lets some ascend.

    Examples
    --------
    >>> [zeno_score(inner, 1.0, rate=0.1, rho=0.002, epsilon=0.1) > 0 for inner in (1.0, -1.0)]
    [True, False]

    References
    ----------
    .. [1] Xie, Koyejo, Gupta, "Zeno++: Robust Fully Asynchronous SGD", ICML 2020.
    """
    who = "zeno_score"
    gamma, short = more_than(who, "rate", rate, 0.0), more_than(who, "rho", rho, 0.0)
    allowed = at_least(who, "epsilon", epsilon, 0.0)
    return gamma * (finite(who, "inner", inner) + allowed) - short * at_least(who, "square", square, 0.0)


def majority_risk(population: int, byzantine: int, sampled: int, *, rounds: int = 1) -> float:
    r"""The probability that some round's sample has no honest majority.

    .. math:: 1 - \left(1 - P(2X \ge m)\right)^T, \qquad X \sim \mathrm{Hypergeometric}(N, K, m)

    Examples
    --------
    Of 100 clients 15 are Byzantine, and 12 are sampled in each of 200 rounds.

    >>> round(majority_risk(100, 15, 12), 4), round(majority_risk(100, 15, 12, rounds=200), 2)
    (0.0023, 0.37)

    Notes
    -----
    `least_sample` gives the least m for which this is small. Over the last updates of all clients (`Kept`), the
    condition is K < N/2 instead, whatever a sample holds.

    References
    ----------
    .. [1] Allouah et al., "Byzantine-Robust Federated Learning: Impact of Client Subsampling and Local Updates",
       ICML 2024.
    """
    check_count("majority_risk", "rounds", rounds)
    check_count("majority_risk", "sampled", sampled)
    once = sampling_failure(population, byzantine, sampled, (sampled + 1) // 2 - 1)
    return float(1.0 - (1.0 - once) ** rounds)
