"""The mean."""

from dataclasses import dataclass
from typing import ClassVar

from mixtailor.rules.base import Rule
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Point, Updates

__all__ = ["Mean"]


@dataclass(frozen=True)
class Mean(Rule):
    r"""The mean of all updates, which is not robust.

    .. math:: \frac1n \sum_i x_i

    Needs ``n >= 1``. Cost O(nd). Tolerates no Byzantine update.

    Examples
    --------
    >>> Mean()(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([2., 3.])

    Notes
    -----
    Weights are equal unless ``weights=`` gives others. If workers report their own weights, such as their number of
    examples, a Byzantine worker can report a large one.

    References
    ----------
    .. [1] McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017.
    """

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(n d)"

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return 0

    @property
    def robust(self) -> bool:
        return False

    def decide(self, updates: Updates) -> Point:
        return updates.mean()

    def takes_weights(self) -> bool:
        return True

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        return updates.combine(weighting.mass / weighting.total)
