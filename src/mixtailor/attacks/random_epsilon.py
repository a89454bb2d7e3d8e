"""The tailored attack with a random size."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_positive, refuse
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.tailored import Scale, Tailored, check_scale
from mixtailor.updates import Point

__all__ = ["RandomEpsilon", "check_epsilons"]


@dataclass(frozen=True)
class RandomEpsilon(Attack):
    r"""The tailored attack with an epsilon drawn again in each round.

    .. math:: b = -\epsilon \bar x, \qquad \epsilon \text{ uniform among } \{\epsilon_1, \ldots, \epsilon_k\}

    Parameters
    ----------
    epsilons : sequence of float
        The values to draw from: a small one against Krum and a large one against the median.
    scale : {"mean", "sum/f"}
        As in `Tailored`.

    Examples
    --------
    >>> update = RandomEpsilon()(np.array([[1.0, 2.0], [3.0, 4.0]]), f=1)
    >>> float(update[0, 0]) in (-0.2, -20.0)
    True

    Notes
    -----
    The MixTailor paper mentions a small and a large epsilon without values; 0.1 and 10 are those of its other figures.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022.
    """

    epsilons: tuple[float, ...] = (0.1, 10.0)
    scale: Scale = field(default="mean", kw_only=True)

    needs: ClassVar[str] = "the honest updates"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilons", check_epsilons("RandomEpsilon", self.epsilons))
        check_scale("RandomEpsilon", self.scale)

    def points(self, scene: Scene) -> Sequence[Point]:
        epsilon = float(scene.random.choice(np.array(self.epsilons)))
        return Tailored(epsilon, scale=self.scale).points(scene)


def check_epsilons(name: str, epsilons: object) -> tuple[float, ...]:
    """A set of epsilons to choose from."""
    if not isinstance(epsilons, (tuple, list, np.ndarray)) or not len(epsilons):
        refuse(f"{name} needs epsilons as a sequence of at least one number and got {epsilons!r}.")
    numbers = tuple(float(epsilon) for epsilon in epsilons)
    for epsilon in numbers:
        check_positive(name, "epsilon", epsilon)
    return numbers
