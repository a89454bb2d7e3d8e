"""What drawing from a pool costs."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mixtailor._checks import refuse
from mixtailor.theory._needs import an_array, probabilities_for

__all__ = ["PoolCost", "pool_cost"]


@dataclass(frozen=True)
class PoolCost:
    """The cost of one round of a mixture, in the unit of the rules' costs.

    Attributes
    ----------
    expected, worst : float
        The mean over the draw, and the dearest rule that can be drawn.
    dearest : int
        The index of that rule.
    deviation : float
        The standard deviation over the draw.
    """

    expected: float
    worst: float
    dearest: int
    deviation: float

    def __str__(self) -> str:
        return (
            f"{self.expected:.6g} a round on average (+- {self.deviation:.3g}), "
            f"at worst {self.worst:.6g} (rule {self.dearest})"
        )


def pool_cost(costs: ArrayLike, probabilities: ArrayLike | None = None) -> PoolCost:
    r"""The expected and the worst cost of a pool, of which one rule is computed each round.

    .. math:: E = \sum_m p_m c_m, \qquad W = \max_{m : p_m > 0} c_m

    Parameters
    ----------
    costs : array of M numbers
        What each rule costs: operations, or measured seconds.
    probabilities : array of M numbers, optional
        How often each rule is drawn; uniform where not given.

    Examples
    --------
    Krum, comed and Bulyan in microseconds, as the paper measured them.

    >>> print(pool_cost([2176, 153, 6700]))
    3009.67 a round on average (+- 2.74e+03), at worst 6700 (rule 2)

    Notes
    -----
    A larger pool costs more only if the rules that join it cost more than its mean.

    References
    ----------
    .. [1] Ramezani-Kebrya et al., "MixTailor", TMLR 2022, appendix on computational complexity and Table 1.
    """
    prices = an_array("pool_cost", "costs", costs, 1)
    if prices.min() < 0.0:
        refuse(f"pool_cost needs costs that are not negative, and the least is {prices.min():g}.")
    shares = probabilities_for("pool_cost", prices.size, probabilities)
    expected = math.fsum(shares * prices)
    dearest = int(np.where(shares > 0.0, prices, -np.inf).argmax())
    return PoolCost(
        expected=expected,
        worst=float(prices[dearest]),
        dearest=dearest,
        deviation=math.sqrt(math.fsum(shares * (prices - expected) ** 2)),
    )
