"""Clipping to a fixed radius."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_positive
from mixtailor.preaggregation.base import PreAggregation
from mixtailor.rules._clip import clip_factors
from mixtailor.updates import Updates

__all__ = ["Clipping", "clipped"]


@dataclass(frozen=True)
class Clipping(PreAggregation):
    r"""Updates longer than a radius are shortened to it.

    .. math:: y_i = \min\left(1, \frac{C}{\lVert x_i \rVert_2}\right) x_i

    n and f stay as they are. Cost O(nd).

    Parameters
    ----------
    radius : float
        The largest length of an update, C, in the units of the updates.

    Examples
    --------
    >>> from mixtailor import Mean
    >>> (Clipping(1.0) >> Mean())(np.array([[0.5, 0.0], [0.0, -0.5], [0.0, 9e9]]))
    array([0.16666667, 0.16666667])

    Notes
    -----
    A fixed radius makes no rule robust, and a radius below the honest lengths biases the result. `ARC` adapts the
    radius instead. Norms are computed with scaling, so that an update at 1e38 is clipped to the radius and not to zero.
    Only an update beyond 1e140, which float64 alone can represent, becomes zero.

    References
    ----------
    .. [1] Allouah, Guerraoui, Gupta, Jellouli, Rizk, Stephan, "Adaptive Gradient Clipping for Robust Federated
       Learning", ICLR 2025, which compares fixed radii with adaptive ones.
    """

    radius: float

    cost: ClassVar[str] = "O(n d)"
    lacks: ClassVar[Mapping[str, str]] = {
        "translation": "lengths are from the origin",
        "scale": "the radius is a length in the units of the updates",
    }

    def __post_init__(self) -> None:
        check_positive("Clipping", "radius", self.radius)

    def after(self, n: int, f: int) -> tuple[int, int]:
        return n, f

    @property
    def bounds(self) -> bool:
        return True

    def prepare(self, updates: Updates) -> Updates:
        return clipped(updates, self.radius)


def clipped(updates: Updates, radius: float) -> Updates:
    """The rows, those longer than the radius shortened to it."""
    lengths = updates.norms()
    factors = clip_factors(lengths, radius)
    return updates if (factors == 1.0).all() else updates.mix(np.diag(factors))
