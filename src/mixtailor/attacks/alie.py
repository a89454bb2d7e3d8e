"""A Little Is Enough."""

import math
import warnings
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.attacks.base import Line, Linear, Scene
from mixtailor.updates import Deviation

__all__ = ["ALIE", "largest_z"]


def largest_z(n: int, f: int) -> float:
    r"""The z that hides behind as many honest workers as a majority still lacks.

    .. math:: z = \Phi^{-1}\left(\frac{n - f - s}{n - f}\right), \qquad s = \lfloor n/2 + 1 \rfloor - f

    Minus infinity where s leaves nobody, infinity where f is a majority already.

    Examples
    --------
    >>> largest_z(12, 2)
    0.0
    >>> round(largest_z(50, 24), 4)
    1.4261
    """
    needed = n // 2 + 1 - f
    share = (n - f - needed) / (n - f)
    if not 0.0 < share < 1.0:
        return math.inf if share >= 1.0 else -math.inf
    return NormalDist().inv_cdf(share)


@dataclass(frozen=True)
class ALIE(Linear):
    r"""The mean of the honest updates, less z standard deviations in each coordinate.

    .. math:: b_j = \mu_j - z \, \sigma_j

    All f updates are equal. In each coordinate they are no further out than some honest updates are, so that they look
    honest, and they move the median and the mean as far as the noise allows.

    Parameters
    ----------
    z : float, optional
        How many standard deviations; by default the paper's formula, see `largest_z`.
    ddof : {0, 1}
        Whether variances are divided by the number of updates or by one less.

    Examples
    --------
    >>> ALIE(z=1.5)(np.array([[1.0, 5.0], [3.0, 5.0]]), f=1)
    array([[0.5, 5. ]])

    Notes
    -----
    The formula gives z = 0 at n = 12, f = 2. The attack then sends the mean, with a warning. The authors of MixTailor
    used 1.5. The paper estimates mean and deviation from the Byzantine workers' own data, which is
    ``Oblivious() | ALIE()`` here; libraries take the honest updates, as this does. The paper adds z deviations, its
    code subtracts them; the sign is free, and most code subtracts. Some code divides by one less (``ddof=1``).

    References
    ----------
    .. [1] Baruch, Baruch, Goldberg, "A Little Is Enough: Circumventing Defenses For Distributed Learning",
       NeurIPS 2019.
    """

    z: float | None = None
    ddof: int = field(default=0, kw_only=True)

    needs: ClassVar[str] = "the honest updates' mean and deviations"

    def __post_init__(self) -> None:
        if self.z is not None and (isinstance(self.z, bool) or not isinstance(self.z, (int, float))):
            raise TypeError(f"ALIE needs z as a number or None, for the formula, and got {self.z!r}.")
        if self.z is not None and not 0.0 < self.z < math.inf:
            refuse(f"ALIE needs z > 0, or None for the formula, and got z = {self.z}.")
        check_count("ALIE", "ddof", self.ddof, 0)

    def line(self, scene: Scene) -> Line:
        honest = scene.honest
        if honest.n <= self.ddof:
            refuse(f"{self!r} needs more than {self.ddof} honest rows for a standard deviation and got {honest.n}.")
        frame = honest.beside(honest.columns(Deviation(self.ddof)))
        base, direction = np.full(frame.n, 1.0 / honest.n), np.zeros(frame.n)
        base[-1], direction[-1] = 0.0, -1.0
        return Line(frame, base, direction)

    def size(self, scene: Scene, line: Line) -> float:
        if self.z is not None:
            return self.z
        z = largest_z(scene.n, scene.f)
        if z <= 0.0:
            warnings.warn(
                f"ALIE's formula gives z = {z:.3g} at n = {scene.n}, f = {scene.f}, which is no attack: the rows are "
                "not below the honest mean. Give z=, 1.5 for instance.",
                UserWarning,
                stacklevel=6,
            )
        return z
