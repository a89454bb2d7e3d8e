"""The majority vote of the signs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from mixtailor.rules.base import Rule
from mixtailor.updates import Point, Sign, Updates

__all__ = ["SignVote"]


@dataclass(frozen=True)
class SignVote(Rule):
    r"""The sign that most updates have, in each coordinate.

    .. math:: U_k = \operatorname{sign} \sum_i \operatorname{sign}(x_{ik})

    Needs ``n >= 1`` and tolerates fewer than half of the updates, so that no f is declared. Cost O(n d).

    Examples
    --------
    >>> SignVote()(np.array([[0.5, -2.0], [3.0, -0.1], [-9e9, 4.0]]))
    array([ 1., -1.])

    Notes
    -----
    Zeros do not count, and a tie gives 0; implementations that send one bit per coordinate have no zeros. The result is
    a direction of size 1 in each coordinate, whatever the size of the updates: choose the learning rate for this. If
    honest workers agree on a sign, a minority cannot change it; if they are divided, one update can.

    References
    ----------
    .. [1] Bernstein, Zhao, Azizzadenesheli, Anandkumar, "signSGD with Majority Vote is Communication Efficient and
       Fault Tolerant", ICLR 2019.
    """

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(n d)"
    lacks: ClassVar[Mapping[str, str]] = {
        "translation": "signs are taken about the origin",
        "scale": "the result holds signs, whatever the size of the updates",
    }

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return (n - 1) // 2

    def decide(self, updates: Updates) -> Point:
        return updates.columns(Sign())
