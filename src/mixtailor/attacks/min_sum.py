"""Min-Sum."""

import math
from dataclasses import dataclass

from mixtailor.attacks._perturbations import Away, squares
from mixtailor.attacks.base import Line, Scene

__all__ = ["MinSum"]


@dataclass(frozen=True)
class MinSum(Away):
    r"""Updates as far from the honest mean as possible within the honest updates' largest sum of squared distances.

    .. math:: b = \mu + \gamma v, \qquad \gamma = \max \{ \gamma : \sum_i \lVert b - x_i \rVert^2
              \le \max_i \sum_j \lVert x_i - x_j \rVert^2 \}

    All f updates are equal. Needs no knowledge of the server's rule.

    Parameters
    ----------
    direction : {"deviation", "unit", "sign"}
        v: minus the standard deviations, minus the mean's unit vector, or minus the mean's signs.

    Examples
    --------
    >>> MinSum(direction="sign")(np.array([[1.0], [3.0]]), f=1)
    array([[1.]])

    Notes
    -----
    As for `MinMax`, gamma is exact: the linear terms have sum zero, and what is left is one root.

    References
    ----------
    .. [1] Shejwalkar, Houmansadr, "Manipulating the Byzantine: Optimizing Model Poisoning Attacks and Defenses for
       Federated Learning", NDSS 2021.
    """

    def size(self, scene: Scene, line: Line) -> float:
        constant, _, quadratic = squares(scene, line)
        if quadratic <= 0.0:
            return 0.0
        reach = float((scene.honest.distances(2.0) ** 2).sum(axis=1).max())
        return math.sqrt(max(reach - float(constant.sum()), 0.0) / (scene.honest.n * quadratic))
