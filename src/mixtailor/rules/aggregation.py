"""`Aggregation`: the result and what happened on the way to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from mixtailor._checks import listing, plural, shown
from mixtailor._types import Floats

__all__ = ["Aggregation", "Quarantined"]


@dataclass(frozen=True)
class Quarantined:
    """A row that was taken out because it proves a fault."""

    row: int
    worker: object
    reason: str

    def __str__(self) -> str:
        name = "" if self.worker is None or self.worker == self.row else f" ({shown(self.worker)})"
        return f"row {self.row}{name}: {shown(self.reason)}"


@dataclass(frozen=True, eq=False)
class Aggregation:
    """The result of a rule, and why. Update indices are of the updates as received.

    Attributes
    ----------
    update : Any
        The result, in the form that one worker's update had; None where `on_fault="skip"` skipped the round.
    rule : object
        The rule that was applied; of a MixTailor, the one that was drawn.
    n : int
        How many updates were received.
    weights : array or None
        The weight of each received update in the result; None where the result is no combination of updates.
    selected : tuple of int or None
        The updates that the rule chose, where it chooses.
    scores : array or None
        The score of each received update, where the rule scores; NaN for updates that were quarantined.
    distances : array or None
        How far each received update was from the result, where the rule's own queries show it, in the norm that it
        asked in; NaN for updates that were quarantined. `Reputation.observe(result, updates)` finds them for any rule.
    quarantined : tuple of Quarantined
        Updates that were removed because they prove a fault, and why.
    iterations, residual : int, float or None
        Where the rule iterates.
    facts : Mapping
        Everything else that the rule reports.
    workers : tuple
        The workers' names, if they were given.
    """

    update: Any
    rule: Any
    n: int
    weights: Floats | None = None
    selected: tuple[int, ...] | None = None
    scores: Floats | None = None
    quarantined: tuple[Quarantined, ...] = ()
    iterations: int | None = None
    residual: float | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    workers: tuple[object, ...] = ()
    distances: Floats | None = None

    def with_update(self, update: Any) -> Self:
        """The same with another update."""
        other = object.__new__(type(self))  # `dataclasses.replace` takes as long as a small rule
        other.__dict__.update(self.__dict__, update=update)
        return other

    def __str__(self) -> str:
        lines = [f"{self.rule!r} on {plural(self.n, 'update')}"]
        if self.update is None:
            why = f"the rule failed ({failed})" if (failed := self.facts.get("failed")) else "more faults than f"
            lines.append(f"  no update: {why}, round skipped")
        if self.selected is not None:
            lines.append(f"  selected     {listing(self._names(self.selected))}")
        if self.weights is not None and len(set(self.weights[self.weights != 0])) > 1:
            shown = [f"{self._name(row)}: {self.weights[row]:.3g}" for row in np.argsort(-self.weights, kind="stable")]
            lines.append(f"  weights      {listing(shown, 8)}")
        if self.scores is not None:
            shown = [f"{self._name(row)}: {self.scores[row]:.3g}" for row in np.argsort(self.scores, kind="stable")]
            lines.append(f"  scores       {listing(shown, 8)}")
        if self.iterations is not None:
            residual = "" if self.residual is None else f", residual {self.residual:.2g}"
            lines.append(f"  iterations   {self.iterations}{residual}")
        lines.append("  quarantined  " + (listing(self.quarantined, 6) or "none"))
        return "\n".join(lines)

    def _name(self, row: int) -> str:
        return str(self.workers[row]) if self.workers else str(row)

    def _names(self, rows: tuple[int, ...]) -> list[str]:
        return [self._name(row) for row in rows]

    def summary(self) -> dict[str, object]:
        """What happened without the update, in types that JSON knows."""
        return {
            "rule": repr(self.rule),
            "n": self.n,
            "weights": None if self.weights is None else [float(w) for w in self.weights],
            "selected": None if self.selected is None else list(self.selected),
            "scores": None if self.scores is None else [None if np.isnan(s) else float(s) for s in self.scores],
            "quarantined": [
                {"row": q.row, "worker": None if q.worker is None else str(q.worker), "reason": q.reason}
                for q in self.quarantined
            ],
            "iterations": self.iterations,
            "residual": self.residual,
            "skipped": self.update is None,
        }
