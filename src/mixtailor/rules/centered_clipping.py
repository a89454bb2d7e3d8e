"""Centered clipping."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count, check_positive
from mixtailor.rules._clip import clip_factors
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.updates import Point, Updates

__all__ = ["CenteredClipping"]


@dataclass(frozen=True)
class CenteredClipping(Rule):
    r"""Steps from a centre towards the mean of the updates, with each difference clipped to a fixed length.

    .. math:: v \leftarrow v + \frac1n \sum_i (x_i - v) \min\left(1, \frac{\tau}{\lVert x_i - v \rVert_2}\right)

    It starts at the ``reference=`` given with the call, which in the paper is the result of the round before. Without
    one it starts at the medoid, the update whose ``floor(n/2)``-th nearest other update is closest, or at the mean of
    such updates where there are several: fewer than half of the updates cannot move it, and it costs nothing beyond the
    distances. Needs ``n >= 1``; no f is declared. Cost O(n^2 d) for any number of iterations, since all but the first
    run on the n x n inner products, and O(nd) for one iteration from a reference.

    Parameters
    ----------
    tau : float
        The largest length of a difference, in the units of the updates. No value suits all trainings, so there is no
        default. Start with the typical distance of honest updates to their mean.
    iterations : int
        The number of steps.

    Examples
    --------
    Each of the four differences is clipped to length 1, and their mean is added to the reference.

    >>> updates = np.array([[0.0], [1.0], [2.0], [9e9]])
    >>> CenteredClipping(tau=1.0)(updates, reference=np.array([1.0]))
    array([1.25])

    Notes
    -----
    Other libraries start at zero if there is no last result; a `reference` of zeros does the same. One step is at most
    `tau` long, so that a start far from the updates stays far from them. One update moves the result of a step by at
    most ``tau / n``, whatever it contains. The published guarantee is about the distance from the start to the honest
    mean, so that there is no coefficient. If the same vector is added to all updates and to the reference, it is added
    to the result.

    References
    ----------
    .. [1] Karimireddy, He, Jaggi, "Learning from History for Byzantine Robust Optimization", ICML 2021.
    """

    tau: float = field(kw_only=True)
    iterations: int = field(default=1, kw_only=True)

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(n^2 d); with a reference and one iteration O(n d)"
    lacks: ClassVar[Mapping[str, str]] = {"scale": "tau is a length in the units of the updates"}

    def __post_init__(self) -> None:
        check_positive("CenteredClipping", "tau", self.tau)
        check_count("CenteredClipping", "iterations", self.iterations)

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return (n - 1) // 2

    def asks(self) -> Asks:
        return Asks(reference="previous")

    def decide(self, updates: Updates) -> Point:
        n, start = updates.n, updates.reference
        if start is None:
            # Two rows that are each other's floor(n/2)-th neighbour always tie: by index, the order would decide.
            reach = np.partition(updates.distances(2.0), n // 2, axis=1)[:, n // 2]
            start = updates.mean(np.nonzero(reach == reach.min())[0])
        lengths = updates.distances_to(start)
        pull = clip_factors(lengths, self.tau) / n
        shift = pull  # the weights of the rows, less the start, in the way made so far
        if self.iterations > 1:
            products = updates.products(start)
            for _ in range(self.iterations - 1):
                mixed = products @ shift
                lengths = np.sqrt(np.maximum(np.diag(products) - 2.0 * mixed + shift @ mixed, 0.0))
                pull = clip_factors(lengths, self.tau) / n
                shift = shift * (1.0 - pull.sum()) + pull
        weights = np.append(shift, 1.0 - shift.sum())
        return updates.beside(start).combine(weights, scores=lengths, iterations=self.iterations)
