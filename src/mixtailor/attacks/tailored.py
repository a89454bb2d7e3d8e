"""The tailored attack: inner-product manipulation."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from mixtailor._checks import check_positive, refuse
from mixtailor.attacks.base import Line, Linear, Scene

__all__ = ["Scale", "Tailored", "check_scale"]

Scale = Literal["mean", "sum/f"]


@dataclass(frozen=True)
class Tailored(Linear):
    r"""Minus epsilon times the mean of the honest updates.

    .. math:: b = -\frac{\epsilon}{n - f} \sum_{i \text{ honest}} x_i

    All f updates are equal. With a small epsilon they are close to the honest updates, so that Krum may select one;
    with a large epsilon they move averages and medians.

    Parameters
    ----------
    epsilon : float
        How far to go against the mean, above 0.
    scale : {"mean", "sum/f"}
        Whether epsilon multiplies the mean, or the sum divided by f.

    Examples
    --------
    >>> Tailored(epsilon=0.5)(np.array([[1.0, 2.0], [3.0, 4.0]]), f=1)
    array([[-1. , -1.5]])

    Notes
    -----
    The MixTailor paper's text has the mean. The code that its authors published scales the *sum* over f instead, which
    at n = 12, f = 2 is five times larger: ``scale="sum/f"``.

    References
    ----------
    .. [1] Xie, Koyejo, Gupta, "Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product Manipulation",
       UAI 2019.
    .. [2] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022.
    """

    epsilon: float = 0.1
    scale: Scale = field(default="mean", kw_only=True)

    needs: ClassVar[str] = "the honest updates"

    def __post_init__(self) -> None:
        check_positive("Tailored", "epsilon", self.epsilon)
        check_scale("Tailored", self.scale)

    def line(self, scene: Scene) -> Line:
        m = scene.honest.n
        share = 1.0 / m if self.scale == "mean" else 1.0 / scene.f
        return Line(scene.honest, np.zeros(m), np.full(m, -share))

    def size(self, scene: Scene, line: Line) -> float:
        return self.epsilon


def check_scale(name: str, scale: object) -> None:
    """What epsilon multiplies."""
    if scale not in ("mean", "sum/f"):
        refuse(f"{name} needs scale='mean' (the paper's text) or scale='sum/f' (its code) and got {scale!r}.")
