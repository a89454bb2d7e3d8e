"""Clipped gossip: a step from one's own vector towards the neighbours', each pulling by no more than a length."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_positive, refuse
from mixtailor.rules._clip import clip_factors
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.updates import Point, Updates

__all__ = ["ClippedGossip"]


@dataclass(frozen=True)
class ClippedGossip(Rule):
    r"""A worker's own vector, moved towards the vectors of the others by clipped differences.

    .. math:: r + \frac1n \sum_i (x_i - r) \min\left(1, \frac{\tau}{\lVert x_i - r \rVert_2}\right)

    r is the ``reference=`` of the call: a worker's own vector, which is one of the n updates. Without a fixed radius,
    :math:`\tau` is the (2f + 1)-th largest of the distances: most of the updates at this distance or farther are
    honest. Needs ``n >= 2f + 1`` and a reference. Cost O(nd).

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    tau : float, optional
        A fixed radius, as in [1]_, in the units of the vectors.

    Examples
    --------
    The difference to the far update is clipped to the third largest distance, which is 1.

    >>> updates = np.array([[0.0], [1.0], [-1.0], [1.0], [9e9]])
    >>> ClippedGossip(f=1)(updates, reference=np.array([0.0]))
    array([0.4])

    Notes
    -----
    With a fixed `tau` this is one step of ClippedGossip [1]_ with equal weights. A radius from the distances, smaller
    than the f largest of them, is the idea of CS+ [2]_; the choice of the (2f + 1)-th is ours. One worker moves the
    result by at most :math:`\tau / n`. Guarantees are relative to the reference and to the graph, so that there is no
    coefficient relative to the honest mean alone; ``mixtailor.theory.gossip_condition`` checks the graph.

    References
    ----------
    .. [1] He, Karimireddy, Jaggi, "Byzantine-Robust Decentralized Learning via ClippedGossip", arXiv 2202.01545, 2022.
    .. [2] Gaucher, Dieuleveut, Hendrikx, "Unified Breakdown Analysis for Byzantine Robust Gossip", ICML 2025.
    """

    f: int
    tau: float | None = field(default=None, kw_only=True)

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n d)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tau is not None:
            check_positive("ClippedGossip", "tau", self.tau)

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def missing_laws(self) -> dict[str, str]:
        return {} if self.tau is None else {"scale": "tau is a length in the units of the vectors"}

    def asks(self) -> Asks:
        return Asks(reference="trusted")

    def decide(self, updates: Updates) -> Point:
        reference, n = updates.reference, updates.n
        if reference is None:
            refuse(f"{self!r} needs the worker's own vector and got none. Pass it with the call: reference=.")
        lengths = updates.distances_to(reference)
        radius = float(np.sort(lengths)[max(n - 2 * self.f - 1, 0)]) if self.tau is None else self.tau
        pull = clip_factors(lengths, radius) / n
        weights = np.append(pull, 1.0 - pull.sum())
        return updates.beside(reference).combine(weights, scores=lengths)
