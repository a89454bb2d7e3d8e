"""Bulyan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor.kernels.selection import krum_picks
from mixtailor.rules.base import Rule
from mixtailor.rules.krum import Krum
from mixtailor.rules.part import Asks
from mixtailor.updates import Around, Combination, Point, Updates
from mixtailor.updates.reader import only_row

__all__ = ["Bulyan"]


@dataclass(frozen=True)
class Bulyan(Rule):
    r"""Updates selected one by one by another rule, then averaged around their median in each coordinate.

    Phase one picks :math:`\theta = n - 2f` different updates, each the update closest, in the selection's norm, to what
    the selection rule returns on the updates still left. Phase two is, per coordinate, the mean of the
    :math:`\beta = \theta - 2f` values nearest to the median of the picks, or a given rule on the picks.

    Needs ``n >= 4f + 3``. Cost O(n^2 d) with Krum.

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    selection : Rule, optional
        The rule of phase one; Krum in the norm `p` by default.
    then : Rule, optional
        A rule for phase two, in place of the mean around the median.
    p : float
        The norm of the selection, where it has none of its own.

    Examples
    --------
    >>> updates = np.array([[1.0], [1.1], [0.9], [1.2], [0.8], [1.0], [9e9]])
    >>> Bulyan(f=1)(updates).round(2)
    array([0.97])

    Notes
    -----
    If the selection rule returns one of the updates, that update is the pick. The selection rule runs on as few as
    ``2f + 1`` updates. Its own requirement is not checked there, f stays the same, and Krum uses
    ``max(1, left - f - 2)`` neighbours. Bulyan's paper needs ``n >= 4f + 3``; MixTailor's writes ``>``. With one
    neighbour, two updates that are nearest to each other have equal scores; then the sum of the distances to the other
    updates decides, so that the order of the updates does not matter. A published implementation picks the same update
    many times; here picks differ.

    With the plain mean as second phase, which the pool of the MixTailor paper has, this rule is **not robust** where
    the selection is Krum or the mean: with f >= 2, Krum selects one of two identical far updates in its last step, and
    the mean selects a far update if another update, farther away, moves the mean to it. Either moves the result without
    bound. A selection that tolerates f of ``2f + 1`` updates, such as `Comed`, selects no far update, whatever the
    second phase is.

    The order of the updates does not matter with Krum and with a selection that tolerates f of ``2f + 1`` updates. With
    other selections, far updates can make several updates equally close, to all digits, to what the selection returns;
    the first of them is then selected. With the mean in the norm 2 this takes two far updates that nearly cancel.

    References
    ----------
    .. [1] El Mhamdi, Guerraoui, Rouault, "The Hidden Vulnerability of Distributed Learning in Byzantium", ICML 2018.
    """

    f: int
    selection: Rule | None = field(default=None, kw_only=True)
    then: Rule | None = field(default=None, kw_only=True)
    p: float = field(default=2.0, kw_only=True)

    requirement: ClassVar[str] = "n >= 4f + 3"
    cost: ClassVar[str] = "O(n^2 d) and (n - 2f) times its selection"

    def min_rows(self) -> int:
        return 4 * self.f + 3

    @property
    def robust(self) -> bool:
        return self.then is None or self.then.robust or self._selects_near()

    def _selects_near(self) -> bool:
        """Whether the selection tolerates f of the fewest rows that it sees.

        What it returns is then near to some honest row that is left, and so is the row that is closest to it.
        """
        selection = self.selection
        return selection is not None and selection.robust and selection.min_rows() <= 2 * self.f + 1

    def missing_laws(self) -> Mapping[str, str]:
        selection = self.selection
        if selection is None or isinstance(selection, Krum) or self._selects_near():
            return self.lacks
        why = (
            "far rows that move what the selection returns leave the other rows equally close to it, and the first wins"
        )
        return {**self.lacks, "permutation": why}

    def asks(self) -> Asks:
        # The second phase sees the picks alone.
        return Asks(frozenset({self._norm()}), super().asks().reference)

    def _norm(self) -> float:
        return float(getattr(self.selection, "p", self.p))

    def decide(self, updates: Updates) -> Point:
        selection = self.selection or Krum(self.f, p=self.p)
        picks = self._picks(updates, selection, updates.n - 2 * self.f)
        chosen = updates.take(np.sort(picks))
        if self.then is None:
            return chosen.columns(Around(keep=len(picks) - 2 * self.f), selected=picks)
        point = self.then.decide(chosen)
        facts = {name: value for name, value in point.facts.items() if name != "scores"}
        return point.with_facts(**{**facts, "selected": picks})

    def _picks(self, updates: Updates, selection: Rule, count: int) -> "list[int]":
        p = float(getattr(selection, "p", self.p))
        # A pool has several Bulyans that differ in their second phase alone.
        key = (Bulyan, selection, self.f, p, count)
        return list(updates.remember(key, lambda: self._picked(updates, selection, p, count)))

    def _picked(self, updates: Updates, selection: Rule, p: float, count: int) -> "list[int]":
        if isinstance(selection, Krum):
            return [int(row) for row in krum_picks(updates.distances(p), self.f, float(selection.power), count)]
        left = list(range(updates.n))
        picks: list[int] = []
        updates.distances(p)  # known to all the views that follow
        for _ in range(count):
            rows = updates.take(np.array(left))
            point = selection.decide(rows)
            own = _single(point, rows)
            picks.append(left.pop(_nearest(rows, point, p) if own is None else own))
        return picks


def _nearest(rows: Updates, point: Point, p: float) -> int:
    """The row that is closest to a point; of equally close ones the one of the lowest index."""
    if p == 2.0 and isinstance(point, Combination) and point.updates is rows and abs(point.weights.sum() - 1.0) < 1e-9:
        # A far row takes a mean along, and the others are equally far from it, to all digits. Less the square that they
        # have in common, and about the medoid, the squares of their distances have digits.
        _, products, _ = rows.about_medoid()
        return int((np.diag(products) - 2.0 * (products @ point.weights)).argmin())
    return int(rows.distances_to(point, p).argmin())


def _single(point: Point, rows: Updates) -> int | None:
    """The row that a point is, if it is one."""
    return only_row(point.weights) if isinstance(point, Combination) and point.updates is rows else None
