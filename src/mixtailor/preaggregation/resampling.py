"""s-resampling."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count
from mixtailor.preaggregation.base import PreAggregation
from mixtailor.updates import Updates

__all__ = ["Resampling"]


@dataclass(frozen=True)
class Resampling(PreAggregation):
    r"""Each update becomes the mean of s updates drawn at random, and every update is drawn s times in all.

    .. math:: y_i = \frac1s \sum_{k=1}^{s} x_{j_{ik}}

    Of n updates with f faulty ones it makes n updates, of which up to ``s f`` contain a faulty one. The rule behind it
    gets ``s f``, or, with ``f_after="declared"``, keeps its own f, as in the MixTailor paper's experiments. Cost: none
    of its own, since the means are computed block by block.

    Parameters
    ----------
    repeats : int
        How often each update is drawn, s.

    Examples
    --------
    >>> from mixtailor import Mean
    >>> (Resampling(repeats=2) >> Mean())(np.array([[1.0], [2.0], [3.0], [6.0]]))
    array([3.])
    >>> Resampling(repeats=2).after(12, 2)
    (12, 4)

    Notes
    -----
    The list that contains each update s times is shuffled, and each mean is that of the next s entries. Every update is
    used exactly s times, so that the mean of all stays the same; an update may occur twice in one mean. The shuffle
    comes from the secret randomness of the call, after the updates have arrived. A later version of the paper replaced
    this by `Bucketing`, which returns fewer means and does not spread the faulty updates.

    References
    ----------
    .. [1] He, Karimireddy, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Resampling",
       arXiv 2006.09365v1, 2020.
    .. [2] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022.
    """

    repeats: int = field(kw_only=True)

    cost: ClassVar[str] = "O(s n d)"

    def __post_init__(self) -> None:
        check_count("Resampling", "repeats", self.repeats)

    def after(self, n: int, f: int) -> tuple[int, int]:
        return n, self.repeats * f

    def prepare(self, updates: Updates) -> Updates:
        n = updates.n
        drawn = updates.random.permutation(self.repeats * n) % n
        counts = np.zeros((n, n))
        np.add.at(counts, (np.repeat(np.arange(n), self.repeats), drawn), 1.0)
        return updates.mix(counts / self.repeats)
