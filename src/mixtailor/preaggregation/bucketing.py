"""Bucketing."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count
from mixtailor.preaggregation.base import PreAggregation
from mixtailor.updates import Updates

__all__ = ["Bucketing"]


@dataclass(frozen=True)
class Bucketing(PreAggregation):
    r"""The means of buckets of s updates, in random order.

    .. math:: y_i = \frac1s \sum_{k = (i - 1) s + 1}^{i s} x_{\pi(k)}

    with :math:`\pi` a random permutation; the last bucket may hold fewer updates and is averaged over those it holds.
    Of n updates with f faulty ones it makes ``ceil(n / s)`` means with f faulty ones. Cost: none of its own, since the
    means are computed block by block.

    Parameters
    ----------
    size : int
        The number of updates in a bucket, s.

    Examples
    --------
    >>> from mixtailor import Mean
    >>> (Bucketing(size=2) >> Mean())(np.array([[1.0], [2.0], [3.0], [6.0]]))
    array([3.])
    >>> Bucketing(size=2).after(11, 2)
    (6, 2)

    Notes
    -----
    The permutation comes from the secret randomness of the call, after the updates have arrived: an attacker who knew
    it could choose which buckets its updates are in.

    References
    ----------
    .. [1] Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing", ICLR 2022.
    """

    size: int = field(kw_only=True)

    cost: ClassVar[str] = "O(n d)"

    def __post_init__(self) -> None:
        check_count("Bucketing", "size", self.size)

    def after(self, n: int, f: int) -> tuple[int, int]:
        return -(-n // self.size), f

    def prepare(self, updates: Updates) -> Updates:
        n = updates.n
        bucket = np.arange(n) // self.size
        weights = np.zeros((bucket[-1] + 1, n))
        weights[bucket, updates.random.permutation(n)] = (1.0 / np.bincount(bucket))[bucket]
        return updates.mix(weights)
