"""Adaptive robust clipping."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_rows
from mixtailor.preaggregation.base import PreAggregation
from mixtailor.preaggregation.clipping import clipped
from mixtailor.rules.base import Rule
from mixtailor.updates import Updates

__all__ = ["ARC"]


@dataclass(frozen=True)
class ARC(PreAggregation):
    r"""Adaptive robust clipping: the k longest updates are shortened to the length of the next one.

    .. math:: y_i = \min\left(1, \frac{C}{\lVert x_i \rVert_2}\right) x_i, \qquad
       k = \left\lfloor 2 \frac{f}{n} (n - f) \right\rfloor

    where C is the (k + 1)-th largest length. n and f stay as they are. Needs ``n >= 2f + 1``. Cost O(nd).

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.

    Examples
    --------
    Of four updates with f = 1 the longest one is shortened.

    >>> from mixtailor import Mean
    >>> (ARC(f=1) >> Mean())(np.array([[1.0], [2.0], [3.0], [9e9]]))
    array([2.25])

    Notes
    -----
    In front of a rule with coefficient :math:`\kappa` the coefficient is :math:`\kappa + \frac{2f}{n - 2f}` [1]_, at
    most three times as large: clipping costs little in the worst case, and no clipped update is longer than the longest
    honest one.

    References
    ----------
    .. [1] Allouah, Guerraoui, Gupta, Jellouli, Rizk, Stephan, "Adaptive Gradient Clipping for Robust Federated
       Learning", ICLR 2025.
    """

    f: int

    cost: ClassVar[str] = "O(n d)"
    lacks: ClassVar[Mapping[str, str]] = {"translation": "lengths are from the origin"}

    def after(self, n: int, f: int) -> tuple[int, int]:
        return n, f

    @property
    def bounds(self) -> bool:
        return True

    def prepare(self, updates: Updates) -> Updates:
        n = updates.n
        check_rows(self, "n >= 2f + 1", 2 * self.f + 1, n)
        longest = 2 * self.f * (n - self.f) // n
        return clipped(updates, float(np.sort(updates.norms())[::-1][longest]))

    def kappa(self, n: int, f: int, d: int, behind: Rule) -> float | None:
        inner = behind.kappa(n, f, d)
        return None if inner is None or n <= 2 * f else inner + 2 * f / (n - 2 * f)
