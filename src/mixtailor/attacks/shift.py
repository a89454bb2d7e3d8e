"""The same push in every round."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import refuse
from mixtailor.attacks.base import Line, Linear, Scene
from mixtailor.updates import Formula, Updates

__all__ = ["Shift"]


@dataclass(frozen=True)
class Shift(Linear):
    r"""The honest mean, less a push that is equal in all coordinates and the same in every round.

    .. math:: b = \mu - c \, \rho \frac{v}{\lVert v \rVert}, \qquad \rho = \mathrm{median}_i \lVert x_i - \mu \rVert

    v is 1 in a range of coordinates, or in all of them, and 0 elsewhere. With c > 0 all these weights of the model
    rise, round after round. In a network with ReLU and inputs above 0 the activations rise with them and the loss
    becomes sharper, until the learning rate is too large for it and training diverges. Then :math:`\rho` grows, and the
    push too. The f updates are equal and, with c below 1, closer to the mean than honest updates are, so that a filter
    which prefers updates close to the mean gives them more than their share of the weight.

    Parameters
    ----------
    length : float
        c: how long the push is, in distances of honest updates to their mean. Below 0 the weights fall.
    coordinates : tuple of int, optional
        The first coordinate of v and the one after its last, such as those of the first layer; by default all.

    Examples
    --------
    >>> honest = np.array([[1.0, 5.0], [3.0, 5.0]])
    >>> Shift(0.5, coordinates=(1, 2))(honest, f=1)
    array([[2. , 4.5]])

    Notes
    -----
    `ALIE` moves every coordinate by a multiple of its deviation, and `Drift` moves it against the direction of
    training. Here the direction depends on no update, so that it never changes.
    """

    length: float = 0.3
    coordinates: tuple[int, int] | None = field(default=None, kw_only=True)

    needs: ClassVar[str] = "the honest updates' mean and spread"

    def __post_init__(self) -> None:
        if isinstance(self.length, bool) or not isinstance(self.length, (int, float)) or not math.isfinite(self.length):
            refuse(f"Shift needs length as a finite number and got length = {self.length!r}.")
        if self.coordinates is not None:
            object.__setattr__(self, "coordinates", _range(self.coordinates))

    def line(self, scene: Scene) -> Line:
        honest = scene.honest
        first, last = (0, honest.d) if self.coordinates is None else self.coordinates
        if last > honest.d:
            refuse(f"{self!r} needs coordinates up to d = {honest.d}.")
        reach = float(np.median(honest.distances_to(honest.mean())))
        frame = honest.beside(_ones(honest, first, last))
        base = np.append(np.full(honest.n, 1.0 / honest.n), 0.0)
        return Line(frame, base, np.append(np.zeros(honest.n), -reach / math.sqrt(last - first)))

    def size(self, scene: Scene, line: Line) -> float:
        return self.length


def _range(given: Any) -> tuple[int, int]:
    pair = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(pair) != 2 or not all(type(place) is int for place in pair) or not 0 <= pair[0] < pair[1]:
        refuse(f"Shift needs coordinates=(first, last) with 0 <= first < last and got {given!r}.")
    return pair[0], pair[1]


def _ones(updates: Updates, first: int, last: int) -> Formula:
    """1 in a range of coordinates, 0 elsewhere."""

    def function(start: int, stop: int) -> Any:
        values = updates.space.zeros(stop - start)
        values[max(first - start, 0) : max(last - start, 0)] = 1.0
        return values

    return updates.formula(function)
