"""The similarity filter."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_positive, refuse
from mixtailor.preaggregation.base import PreAggregation
from mixtailor.rules.part import Asks
from mixtailor.updates import Updates

__all__ = ["SimilarityFilter"]


@dataclass(frozen=True)
class SimilarityFilter(PreAggregation):
    r"""Updates that are too similar to another update are removed: a defence against attackers that send equal updates.

    .. math:: \{x_i : \lVert x_i - x_j \rVert_p \ge \epsilon \text{ for all } j \ne i\}

    Of a similar pair both updates are removed, since the copy cannot be distinguished from the original. Of n updates
    with f faulty ones it makes, at worst, n - 2f updates with f faulty ones, provided that honest updates are ``2 eps``
    apart or more: then a faulty update close to an honest one removes at most that one. Cost O(n^2 d).

    Parameters
    ----------
    eps : float
        Updates closer than this are similar; in the units of the updates.
    p : float
        The norm, 1 to infinity.

    Examples
    --------
    >>> from mixtailor import Comed
    >>> updates = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [9.0], [9.01]])
    >>> (SimilarityFilter(0.1) >> Comed())(updates)
    array([3.])

    Notes
    -----
    The appendix of the MixTailor paper mentions a filter that rejects all similar updates, and attackers that keep a
    distance of at least :math:`\epsilon` to pass it. So a distance of exactly ``eps`` passes. Honest updates that are
    similar to each other are removed too. If fewer updates are left than the rule needs, the call raises an error.
    Choose ``eps`` far below the distances between honest updates.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022, appendix, "Alternative attack design".
    """

    eps: float
    p: float = field(default=2.0, kw_only=True)

    cost: ClassVar[str] = "O(n^2 d)"
    lacks: ClassVar[Mapping[str, str]] = {"scale": "eps is a length in the units of the updates"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("SimilarityFilter", "eps", self.eps)

    def after(self, n: int, f: int) -> tuple[int, int]:
        return max(0, n - 2 * f), f

    def asks(self) -> Asks:
        return Asks.distances(self.p)

    def prepare(self, updates: Updates) -> Updates:
        others = updates.distances(self.p) + np.diag(np.full(updates.n, np.inf))
        alone = np.nonzero((others >= self.eps).all(axis=1))[0]
        if not len(alone):
            refuse(
                f"{self!r} needs rows that are at least eps apart and got {updates.n} of which each has another one "
                "closer than that. Lower eps."
            )
        return updates if len(alone) == updates.n else updates.take(alone)
