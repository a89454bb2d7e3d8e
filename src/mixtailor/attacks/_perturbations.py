"""The directions in which Min-Max and Min-Sum leave the honest mean."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Floats
from mixtailor.attacks._formulas import length, sign
from mixtailor.attacks.base import Line, Linear, Scene
from mixtailor.updates import Deviation

__all__ = ["Away", "Direction", "squares"]

Direction = Literal["unit", "deviation", "sign"]


@dataclass(frozen=True)
class Away(Linear):
    """Equal rows on the line that leaves the honest mean in one of three directions; how far, the attack says."""

    direction: Direction = field(default="deviation", kw_only=True)

    needs: ClassVar[str] = "the honest updates"

    def __post_init__(self) -> None:
        if self.direction not in ("unit", "deviation", "sign"):
            refuse(f"{type(self).__name__} needs direction='unit', 'deviation' or 'sign' and got {self.direction!r}.")

    def line(self, scene: Scene) -> Line:
        return _away_from_mean(scene, self.direction)


def _away_from_mean(scene: Scene, direction: Direction) -> Line:
    """The line from the honest mean against its unit vector, the deviations or its signs."""
    honest = scene.honest
    m = honest.n
    if direction == "unit":
        size = length(honest.mean())
        return Line(honest, np.full(m, 1.0 / m), np.full(m, -1.0 / (m * size) if size > 0.0 else 0.0))
    if direction == "deviation" and m < 2:
        refuse(f"A standard deviation needs at least 2 honest rows and got {m}.")
    point = honest.columns(Deviation(ddof=1)) if direction == "deviation" else sign(honest, honest.mean())
    frame = honest.beside(point)
    return Line(frame, np.append(np.full(m, 1.0 / m), 0.0), np.append(np.zeros(m), -1.0))


def squares(scene: Scene, line: Line) -> tuple[Floats, Floats, float]:
    r"""The coefficients of :math:`\lVert b(t) - x_i \rVert^2 = a_i + 2 b_i t + c t^2` for each honest update."""
    m = scene.honest.n
    rows = np.eye(m, line.frame.n)
    line.frame.distances(2.0)
    inner = line.frame.inner(*(line.frame.combine(row) for row in [*(line.base - rows), line.direction]))
    return np.diag(inner)[:m], inner[:m, m], float(inner[m, m])
