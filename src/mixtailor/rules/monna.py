"""MoNNA: the mean of the rows nearest to a trusted one."""

from dataclasses import dataclass
from typing import ClassVar

from mixtailor._checks import refuse
from mixtailor.kernels.selection import closest
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.updates import Point, Updates

__all__ = ["MoNNA"]


@dataclass(frozen=True)
class MoNNA(Rule):
    r"""The mean of the n - f updates nearest to a trusted vector.

    .. math:: \frac{1}{n - f} \sum_{i \in N(r)} x_i

    where :math:`N(r)` holds the ``n - f`` updates nearest to the reference r. Needs ``n >= 2f + 1`` and a reference.
    Cost O(n d).

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.

    Examples
    --------
    >>> updates = np.array([[1.0], [2.0], [3.0], [90.0]])
    >>> MoNNA(f=1)(updates, reference=np.array([2.5]))
    array([2.])

    Notes
    -----
    The paper has no server: each node averages the vectors nearest to its own vector, which is one of the n. Here the
    trusted vector is given with the call, as ``reference=``; to simulate a node, give the node's own update. Some
    libraries trust the update of a fixed index; an attacker with that index controls the result. The momentum of the
    paper's name belongs to the workers.

    No averaged update is farther from the reference than the farthest honest update. The paper's guarantee is relative
    to the reference, so that there is no coefficient relative to the honest mean alone.

    References
    ----------
    .. [1] Farhadkhani, Guerraoui, Gupta, Hoang, Pinot, Stephan, "Robust Collaborative Learning with Linear Gradient
       Overhead", ICML 2023.
    """

    f: int

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n d)"

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def asks(self) -> Asks:
        return Asks(reference="trusted")

    def decide(self, updates: Updates) -> Point:
        reference = updates.reference
        if reference is None:
            refuse(f"{self!r} needs a vector to trust and got none. Pass it with the call: reference=.")
        scores = updates.distances_to(reference)
        return updates.mean(closest(scores, updates.n - self.f), scores=scores)
