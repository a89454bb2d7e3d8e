"""Directed deviation against the trimmed mean and the median."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mixtailor._checks import refuse
from mixtailor.attacks._formulas import noise
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.trials import Trials, check_target
from mixtailor.rules import Rule
from mixtailor.updates import Extreme, Point

__all__ = ["FangTrimmedMean"]


@dataclass(frozen=True)
class FangTrimmedMean(Attack):
    r"""In each coordinate beyond all honest updates, on the side against the honest result.

    .. math:: b_j \in [\min_i x_{ij} - \text{gap}, \min_i x_{ij}] \text{ where } s_j \ge 0, \qquad
              b_j \in [\max_i x_{ij}, \max_i x_{ij} + \text{gap}] \text{ where } s_j < 0

    with s the honest mean, or the target's result without an attack. The interval ends at the extreme value times b, or
    divided by b, whichever lies outside, and each update is drawn uniformly from it.

    Parameters
    ----------
    b : float
        How far out the intervals reach, above 1.
    target : Rule, optional
        The rule whose result without an attack gives the signs; the mean by default.

    Examples
    --------
    >>> update = FangTrimmedMean()(np.array([[1.0, -2.0], [2.0, -4.0]]), f=1)[0]
    >>> bool(0.5 <= update[0] <= 1.0), bool(-2.0 <= update[1] <= -1.0)
    (True, True)

    Notes
    -----
    One attack for the trimmed mean and for the median, as in the paper, with full knowledge and its b = 2.

    References
    ----------
    .. [1] Fang, Cao, Jia, Gong, "Local Model Poisoning Attacks to Byzantine-Robust Federated Learning",
       USENIX Security 2020.
    """

    b: float = field(default=2.0, kw_only=True)
    target: Rule | None = field(default=None, kw_only=True)

    needs: ClassVar[str] = "the honest updates' extreme values"

    def __post_init__(self) -> None:
        if isinstance(self.b, bool) or not isinstance(self.b, (int, float)) or not 1.0 < self.b < float("inf"):
            refuse(f"FangTrimmedMean needs b > 1, so that the intervals lie outside, and got b = {self.b!r}.")

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, b = scene.honest, self.b
        if self.target is None:
            result: Point = scene.everyone().mean()
        else:
            trials = Trials(check_target(self, self.target, scene.n), scene)
            result = trials.unattacked(trials.drawn())
        low, high = honest.columns(Extreme(largest=False)), honest.columns(Extreme(largest=True))

        def outside(_start: int, _stop: int, s: Any, least: Any, most: Any, share: Any) -> Any:
            below = least + share * least * ((least > 0) * (1.0 / b - 1.0) + (least <= 0) * (b - 1.0))
            above = most + share * most * ((most > 0) * (b - 1.0) + (most <= 0) * (1.0 / b - 1.0))
            return below * (s >= 0) + above * (s < 0)

        return [
            honest.formula(outside, result, low, high, noise(honest, int(scene.random.integers(1 << 63)), "uniform"))
            for _ in range(scene.f)
        ]
