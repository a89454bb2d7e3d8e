"""What the paper says of its results, held against ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixtailor.experiments.results import Result, Results

__all__ = ["Claim", "Number", "Verdict", "numbers_beside", "verdicts"]

Measure = Literal["accuracy", "fluctuation"]


class Claim(BaseModel):
    """A sentence of the paper as an inequality between two lines of a panel.

    It holds where the rule's accuracy (or fluctuation) is at least, or at most, that of `than` plus `by` points.

    Parameters
    ----------
    text : str
        The sentence, in our words.
    rule : str
        The rule that it is about, as the panel names it.
    than : str, list of str or float
        What it is compared with: a rule, the `pick` of several, or a number.
    panels : list of str, optional
        Where; in every panel by default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    rule: str
    than: str | list[str] | float
    is_: Literal["at least", "at most"] = Field(default="at least", alias="is")
    by: float = 0.0
    pick: Literal["best", "worst"] = "worst"
    measure: Measure = "accuracy"
    panels: list[str] | None = None


class Number(BaseModel):
    """A number that the paper gives: one, or the two ends of a range.

    `measure` is the accuracy in percent, the microseconds of one aggregation, or a key of a preset.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    panel: str
    rule: str
    low: float
    high: float | None = None
    measure: Literal["accuracy", "microseconds", "preset"] = "accuracy"


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds in our runs, and by how much.

    Attributes
    ----------
    ours, other : float or None
        The rule's value and what it was compared with.
    margin : float or None
        By how much it holds, in points; below zero, by how much it does not. None where it was not measured.
    """

    text: str
    panel: str
    ours: float | None
    other: float | None
    margin: float | None

    @property
    def says(self) -> str:
        """The verdict in words."""
        if self.margin is None:
            return "not measured"
        return f"holds, by {self.margin:.2f}" if self.margin >= 0 else f"does not, by {-self.margin:.2f}"


def verdicts(results: Results) -> list[Verdict]:
    """Each claim of the experiment, in each of its panels."""
    found = []
    for table in results.index["claims"]:
        claim = Claim(**{("is" if key == "is_" else key): value for key, value in table.items()})
        for panel in claim.panels or results.panels():
            ours = results.mean(_measure(claim.measure), panel=panel, rule=claim.rule)
            other = _other(claim, results, panel)
            margin = None
            if ours is not None and other is not None:
                margin = ours - other - claim.by if claim.is_ == "at least" else other + claim.by - ours
            found.append(Verdict(claim.text, panel, ours, other, margin))
    return found


def numbers_beside(results: Results) -> list[tuple[Number, float | None]]:
    """Each number that the paper gives, and ours."""
    from mixtailor.experiments.config import PRESETS

    found: list[tuple[Number, float | None]] = []
    for table in results.index["numbers"]:
        number = Number(**table)
        if number.measure == "preset":
            ours: float | None = float(PRESETS[number.panel][number.rule])
        elif number.measure == "microseconds":
            ours = results.mean(lambda run: run.microseconds(), panel=number.panel, rule=number.rule)
        else:
            ours = results.mean(lambda run: run.accuracy(), panel=number.panel, rule=number.rule)
        found.append((number, ours))
    return found


def _measure(name: Measure) -> Callable[[Result], float | None]:
    return (lambda run: run.accuracy()) if name == "accuracy" else (lambda run: run.fluctuation())


def _other(claim: Claim, results: Results, panel: str) -> float | None:
    if isinstance(claim.than, (int, float)):
        return float(claim.than)
    names = [claim.than] if isinstance(claim.than, str) else claim.than
    values = [results.mean(_measure(claim.measure), panel=panel, rule=name) for name in names]
    known = [value for value in values if value is not None]
    if len(known) < len(names):
        return None
    return max(known) if claim.pick == "best" else min(known)
