"""FLTrust."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mixtailor._checks import refuse
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.updates import Point, Updates

__all__ = ["FLTrust"]


@dataclass(frozen=True)
class FLTrust(Rule):
    r"""A mean of updates scaled to the length of the server's own update, weighted by the cosine to it.

    .. math:: U = \frac{1}{\sum_i s_i} \sum_i s_i \frac{\lVert g \rVert}{\lVert x_i \rVert} x_i,
       \qquad s_i = \max\left(0, \frac{\langle x_i, g \rangle}{\lVert x_i \rVert \lVert g \rVert}\right)

    where g is an update that the server computed on clean data of its own, given as ``reference=`` with the call. Needs
    ``n >= 1`` and tolerates any number of updates, so that no f is declared. Cost O(nd).

    Examples
    --------
    >>> updates = np.array([[2.0, 0.0], [0.0, 5.0], [-9e9, 0.0]])
    >>> FLTrust()(updates, reference=np.array([1.0, 1.0])).round(6)
    array([0.707107, 0.707107])

    Notes
    -----
    The result is never longer than g and never points away from it, whatever the updates are; its quality depends on g
    alone. The paper divides by the sum of the scores without saying what happens when it is zero: here, if no update
    has a positive cosine to g, the result is zero, and the round makes no step. An update of zeros has score zero. If g
    is longer than the largest number of the updates' type, the result is as long as that number, because the type
    cannot represent a longer one.

    References
    ----------
    .. [1] Cao, Fang, Liu, Gong, "FLTrust: Byzantine-robust Federated Learning via Trust Bootstrapping", NDSS 2021.
    """

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(n d)"
    lacks: ClassVar[Mapping[str, str]] = {
        "translation": "angles are between vectors from the origin",
        "scale": "the result has the length of the reference",
    }

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return n - 1

    def asks(self) -> Asks:
        return Asks(reference="trusted")

    def decide(self, updates: Updates) -> Point:
        reference = updates.reference
        if reference is None:
            refuse("FLTrust needs the server's own update and got none. Give it with the call, as reference=.")
        lengths = updates.beside(reference).norms()
        # No coordinate is larger than its row is long: a result of a length that the type has can be held.
        rows, own = lengths[:-1], min(float(lengths[-1]), updates.largest)
        inverse = 1.0 / rows
        # A row that is zero, or too short to be brought to the length of the reference, gets no trust.
        inverse = np.where(np.isfinite(inverse * own), inverse, 0.0)
        # Rows are brought to length 1 before they are multiplied, so that no product overflows.
        cosines = updates.mix(np.diag(inverse)).dots(reference) / own if own > 0.0 else np.zeros(updates.n)
        scores = np.clip(np.nan_to_num(cosines, nan=0.0), 0.0, 1.0)
        if scores.sum() == 0.0:
            return updates.combine(np.zeros(updates.n), scores=scores)
        return updates.combine(scores / scores.sum() * own * inverse, scores=scores)
