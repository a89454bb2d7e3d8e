"""The leeway that a distance leaves in one coordinate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.attacks._formulas import one_hot, spread
from mixtailor.attacks.base import Attack, Line, Scene
from mixtailor.attacks.trials import Trials, check_target
from mixtailor.rules import Krum, Rule
from mixtailor.updates import Combination, Point

__all__ = ["Leeway"]


@dataclass(frozen=True)
class Leeway(Attack):
    r"""The honest mean, except for one coordinate that is as far off as the target rule still follows.

    .. math:: b = \mu + \gamma e_j, \qquad \gamma \text{ the largest with } R(x_1, \ldots, b)_j \text{ moved by }
              \ge \gamma / 2

    In d dimensions the distances between honest updates are large, of the order of :math:`\sigma d^{1/p}`. A Byzantine
    update can deviate by as much in a single coordinate. Bulyan was designed against this.

    Parameters
    ----------
    coordinate : int
        j.
    target : Rule, optional
        The rule that is attacked; Krum with the attack's f by default, or with the largest that n allows.
    budget : int
        How many times the size is doubled, and then bisected.

    Examples
    --------
    In 400 dimensions with standard deviation 1, Krum follows a coordinate that is more than 10 off.

    >>> honest = np.random.default_rng(0).normal(size=(10, 400))
    >>> bool(abs(Leeway()(honest, f=2)[0, 0] - honest[:, 0].mean()) > 10)
    True

    Notes
    -----
    The direction is against the mean's own sign in that coordinate. `craft` reports gamma and the number of rule
    evaluations; gamma is 0 where the target never follows.

    References
    ----------
    .. [1] El Mhamdi, Guerraoui, Rouault, "The Hidden Vulnerability of Distributed Learning in Byzantium", ICML 2018.
    """

    coordinate: int = field(default=0, kw_only=True)
    target: Rule | None = field(default=None, kw_only=True)
    budget: int = field(default=40, kw_only=True)

    needs: ClassVar[str] = "the honest updates and the server's rule"

    def __post_init__(self) -> None:
        check_count("Leeway", "coordinate", self.coordinate, 0)
        check_count("Leeway", "budget", self.budget, 2)

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, m = scene.honest, scene.honest.n
        if self.coordinate >= honest.d:
            refuse(f"{self!r} needs a coordinate below d = {honest.d}.")
        target = self.target or Krum(scene.f).lowered(scene.n, scene.f)
        trials = Trials(check_target(self, target, scene.n), scene)
        rule = trials.drawn()
        frame = honest.beside(one_hot(honest, self.coordinate))
        here = float(honest.coordinates(np.array([self.coordinate])).astype(np.float64).mean())
        push = -1.0 if here > 0.0 else 1.0
        line = Line(frame, np.append(np.full(m, 1.0 / m), 0.0), np.append(np.zeros(m), push))

        def follows(gamma: float) -> bool:
            result = trials.result([line.at(gamma)] * scene.f, rule)
            return push * (_coordinate(result, self.coordinate) - here) >= gamma / 2.0

        low, high = self._bracket(follows, spread(honest))
        for _ in range(self.budget // 2 if low > 0.0 else 0):
            middle = (low + high) / 2.0
            low, high = (middle, high) if follows(middle) else (low, middle)
        return [line.at(low, size=low, evaluations=trials.evaluations)] * scene.f

    def _bracket(self, follows: Callable[[float], bool], start: float) -> tuple[float, float]:
        """The largest of sizes that double or halve from the start with which the target follows, and the next."""
        size = start
        if follows(size):
            for _ in range(self.budget // 2):
                if not follows(2.0 * size):
                    break
                size *= 2.0
            return size, 2.0 * size
        for _ in range(self.budget // 2):
            size /= 2.0
            if follows(size):
                return size, 2.0 * size
        return 0.0, size


def _coordinate(result: Point, coordinate: int) -> float:
    """One coordinate of a result."""
    which = np.array([coordinate])
    if isinstance(result, Combination):
        used = np.nonzero(result.weights)[0]
        return float(result.weights[used] @ result.updates.coordinates(which)[used, 0])
    beside = result.updates.beside(result)
    return float(beside.coordinates(which)[-1, 0])
