"""Min-Max."""

import math
from dataclasses import dataclass

import numpy as np

from mixtailor.attacks._perturbations import Away, squares
from mixtailor.attacks.base import Line, Scene

__all__ = ["MinMax"]


@dataclass(frozen=True)
class MinMax(Away):
    r"""Updates as far from the honest mean as possible within the largest distance of two honest updates.

    .. math:: b = \mu + \gamma v, \qquad \gamma = \max \{ \gamma : \max_i \lVert b - x_i \rVert
              \le \max_{i, j} \lVert x_i - x_j \rVert \}

    All f updates are equal. Needs no knowledge of the server's rule.

    Parameters
    ----------
    direction : {"deviation", "unit", "sign"}
        v: minus the standard deviations, minus the mean's unit vector, or minus the mean's signs.

    Examples
    --------
    >>> MinMax(direction="sign")(np.array([[1.0], [3.0]]), f=1)
    array([[1.]])

    Notes
    -----
    The paper finds gamma by halving steps. Each squared distance is a quadratic in gamma with known coefficients, so
    that the largest gamma is the smallest of m roots, exactly. Deviations divide by one less than the number of
    updates, as the authors' code does.

    References
    ----------
    .. [1] Shejwalkar, Houmansadr, "Manipulating the Byzantine: Optimizing Model Poisoning Attacks and Defenses for
       Federated Learning", NDSS 2021.
    """

    def size(self, scene: Scene, line: Line) -> float:
        constant, linear, quadratic = squares(scene, line)
        if quadratic <= 0.0:
            return 0.0
        reach = float(scene.honest.distances(2.0).max()) ** 2
        room = np.maximum(reach - constant, 0.0)
        # The form of the root that does not cancel where the linear term is positive.
        roots = [
            slack / (b + root) if b > 0.0 else (root - b) / quadratic
            for b, slack in zip(linear, room, strict=True)
            for root in [math.sqrt(b * b + quadratic * slack)]
        ]
        return float(min(roots))
