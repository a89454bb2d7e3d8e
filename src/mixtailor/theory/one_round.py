"""What one round can do to a model, whoever sends what."""

import math
from dataclasses import dataclass

from mixtailor._checks import check_fraction, refuse
from mixtailor.theory._needs import at_least

__all__ = ["OneRound", "one_round"]


@dataclass(frozen=True)
class OneRound:
    """The most that one round can do.

    Attributes
    ----------
    length : float
        The length of its result.
    step : float
        How far it moves the weights at once.
    total : float
        How far it moves them in the end, where the server's momentum spreads it over later rounds.
    rise : float or None
        How much the loss rises by that, where the gradient's length and the smoothness are given.
    """

    length: float
    step: float
    total: float
    rise: float | None

    def __str__(self) -> str:
        lines = [
            f"one round: a result of length {self.length:.4g} at most",
            f"  moves the weights by {self.step:.4g} at once, {self.total:.4g} with momentum",
        ]
        return "\n".join(lines if self.rise is None else [*lines, f"  raises the loss by {self.rise:.4g} at most"])


def one_round(
    longest: float,
    *,
    learning_rate: float,
    momentum: float = 0.0,
    slack: float = 1.0,
    growth: float = math.inf,
    typical: float = math.inf,
    gradient: float | None = None,
    smoothness: float | None = None,
) -> OneRound:
    r"""Bound what one round of a `Bounded` or `Guarded` rule can do.

    .. math:: \ell = c \min(G, g R), \qquad \lVert \Delta w \rVert \le \eta \ell, \qquad
        \delta = \frac{\eta \ell}{1 - \mu}, \qquad F(w + \delta) - F(w) \le \lVert \nabla F \rVert \delta
        + \frac{L}{2} \delta^2

    Parameters
    ----------
    longest : float
        G, the length of the longest honest update of the round.
    learning_rate, momentum : float
        eta and mu of the server.
    slack : float
        c of the rule.
    growth, typical : float
        g and R of `Guarded`: its growth, and the median of the last rounds' scales. The past does not count by default.
    gradient, smoothness : float, optional
        The length of the loss's gradient and its Lipschitz constant L, for the rise of the loss.

    Examples
    --------
    Twelve workers send gradients of length 2 at most; the last rounds had 1.5.

    >>> print(one_round(2.0, learning_rate=0.1, momentum=0.9, gradient=1.0, smoothness=1.0))
    one round: a result of length 2 at most
      moves the weights by 0.2 at once, 2 with momentum
      raises the loss by 4 at most
    >>> one_round(2.0, learning_rate=0.1).step, one_round(1e9, learning_rate=0.1, growth=2.0, typical=1.5).step
    (0.2, 0.30000000000000004)

    Notes
    -----
    The length is that of the rule's definition: R of `Bounded` is at most the longest honest length while no more than
    f updates are Byzantine, and with `Guarded` the last rounds hold where that fails. A result U moves the weights by
    eta U now and by eta mu^k U k rounds later, in sum eta U / (1 - mu). The rise is the descent lemma of a loss with an
    L-Lipschitz gradient along that displacement, with nothing else moving. A rule without a bound has no finite
    length here. The bound is reached: the mean under one far update is exactly as long as it says.
    """
    who = "one_round"
    check_fraction(who, "momentum", momentum)
    if momentum == 1.0:
        refuse("one_round needs momentum < 1 and got momentum = 1.")
    rate = at_least(who, "learning_rate", learning_rate, 0.0)
    within = at_least(who, "longest", longest, 0.0) if math.isfinite(longest) else longest
    past = growth * typical if math.isfinite(growth) and math.isfinite(typical) else math.inf
    length = at_least(who, "slack", slack, 1.0) * min(within, past)
    step = rate * length
    total = step / (1.0 - momentum)
    rise = None
    if gradient is not None and smoothness is not None:
        slope, curve = at_least(who, "gradient", gradient, 0.0), at_least(who, "smoothness", smoothness, 0.0)
        rise = slope * total + 0.5 * curve * total**2
    return OneRound(length, step, total, rise)
