"""Step sizes, and whether their sums do what stochastic approximation asks."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mixtailor._checks import refuse
from mixtailor.theory._needs import at_least, finite, more_than

__all__ = ["PowerSchedule", "Schedule", "StepSizes", "check_step_sizes"]

Schedule: TypeAlias = Callable[[int], float]


@dataclass(frozen=True)
class PowerSchedule:
    r"""Step sizes that fall as a power of the step's number.

    .. math:: \eta_t = \frac{\eta_0}{(t + 1)^a}, \qquad t = 0, 1, \dots

    Examples
    --------
    >>> PowerSchedule(0.1, 0.5)(3)
    0.05
    """

    first: float
    power: float

    def __post_init__(self) -> None:
        more_than("PowerSchedule", "first", self.first, 0.0)
        at_least("PowerSchedule", "power", self.power, 0.0)

    def __call__(self, step: int) -> float:
        return float(self.first / (step + 1) ** self.power)


@dataclass(frozen=True)
class StepSizes:
    """What is known of ``sum eta_t = inf`` and ``sum eta_t^2 < inf``.

    Attributes
    ----------
    sum_diverges, squares_converge : bool or None
        Each of the two, or None where it is not decided.
    power : float or None
        The power a of ``eta_t ~ (t + 1)^-a``; for a callable, the one measured over the last steps looked at.
    reason : str
        Why.
    """

    sum_diverges: bool | None
    squares_converge: bool | None
    power: float | None
    reason: str

    @property
    def verdict(self) -> str:
        """ "hold", "fail" or "not decided"."""
        if self.sum_diverges is False or self.squares_converge is False:
            return "fail"
        return "hold" if self.sum_diverges and self.squares_converge else "not decided"

    def __str__(self) -> str:
        sums = {True: "diverges, as needed", False: "converges, and must not", None: "not decided"}[self.sum_diverges]
        squares = {True: "converges, as needed", False: "diverges, and must not", None: "not decided"}[
            self.squares_converge
        ]
        return f"sum of steps: {sums}; sum of squares: {squares} ({self.reason})"


def check_step_sizes(steps: float | Schedule, *, look: int = 2**20) -> StepSizes:
    r"""Check the two sums that almost sure convergence needs.

    .. math:: \sum_t \eta_t = \infty, \qquad \sum_t \eta_t^2 < \infty

    A constant satisfies the first alone. :math:`\eta_0 / (t + 1)^a` satisfies both exactly if 1/2 < a <= 1. Of a
    callable only finitely many values can be seen, and these decide neither sum: the power that it shows up to step
    `look` is reported as evidence, and the verdict is "not decided".

    Parameters
    ----------
    steps : float or callable
        A constant, a `PowerSchedule`, or a callable from the step's number to its size.
    look : int
        How far to look at a callable.

    Examples
    --------
    >>> check_step_sizes(0.001).verdict
    'fail'
    >>> check_step_sizes(PowerSchedule(0.1, 1.0)).verdict
    'hold'
    >>> print(check_step_sizes(lambda step: 0.1 / (10 + step) ** 0.6))
    sum of steps: not decided; sum of squares: not decided (up to step 1048576 it falls like t^-0.6, ...)

    References
    ----------
    .. [1] Robbins and Monro, "A Stochastic Approximation Method", Annals of Mathematical Statistics, 1951.
    """
    if isinstance(steps, PowerSchedule):
        return StepSizes(
            sum_diverges=steps.power <= 1.0,
            squares_converge=steps.power > 0.5,
            power=float(steps.power),
            reason=f"a = {steps.power:g}, and both hold exactly if 1/2 < a <= 1",
        )
    if not callable(steps):
        more_than("check_step_sizes", "a constant step size", steps, 0.0)
        return StepSizes(sum_diverges=True, squares_converge=False, power=0.0, reason="a constant step size")
    marks = [int(look ** (k / 8)) for k in range(2, 9)]
    sizes = [finite("check_step_sizes", f"the size of step {mark}", steps(mark)) for mark in marks]
    for mark, size in zip(marks, sizes, strict=True):
        if size < 0.0:
            refuse(f"check_step_sizes needs step sizes that are not negative, and step {mark} has {size:g}.")
    if sizes[-1] == 0.0 or sizes[-2] == 0.0:
        return StepSizes(None, None, None, f"zero at step {marks[-1] if sizes[-1] == 0.0 else marks[-2]}")
    power = -math.log(sizes[-1] / sizes[-2]) / math.log((marks[-1] + 1) / (marks[-2] + 1))
    if 0.5 < power <= 1.0:
        outlook = "both would hold if it went on so"
    else:
        outlook = "the second would fail if it went on so" if power <= 0.5 else "the first would fail if it went on so"
    reason = f"up to step {marks[-1]} it falls like t^{-power:.3g}, and {outlook}; finitely many values decide nothing"
    return StepSizes(sum_diverges=None, squares_converge=None, power=power, reason=reason)
