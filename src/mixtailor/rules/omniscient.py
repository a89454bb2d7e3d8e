"""The mean of the honest rows, for those who know them."""

from dataclasses import dataclass
from typing import ClassVar

from mixtailor._checks import refuse
from mixtailor.rules.base import Rule
from mixtailor.updates import Point, Updates

__all__ = ["Omniscient"]


@dataclass(frozen=True)
class Omniscient(Rule):
    r"""The mean of the honest updates, whose indices the caller gives: a reference for comparisons, not a defence.

    .. math:: \frac{1}{|H|} \sum_{i \in H} x_i

    Needs ``n >= 1`` and the indices of the honest updates H with the call. Cost O(n d).

    Examples
    --------
    >>> Omniscient()(np.array([[1.0], [-7.0], [3.0]]), honest=[0, 2])
    array([2.])

    Notes
    -----
    After a pre-aggregation it averages the received updates, not the mixed ones, so that comparisons with it include
    the error of the mixing. An honest update that is not finite is removed like any other.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022.
    """

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(n d)"
    reads_all: ClassVar[bool] = False

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return n - 1

    def decide(self, updates: Updates) -> Point:
        honest = updates.call.honest
        if honest is None:
            refuse("Omniscient needs the indices of the honest updates and got none. Give them: honest=[0, 1, ...].")
        if not honest:
            refuse("Omniscient needs at least one honest row among those that are left and got none.")
        return updates.everything.mean(honest)
