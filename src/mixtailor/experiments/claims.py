"""What the paper says of its results, held against ours."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mixtailor.experiments.results import Result, Results

__all__ = ["Claim", "Number", "Verdict", "numbers_beside", "verdicts"]

Measure = Literal["accuracy", "fluctuation", "beginning", "microseconds"]
Pick = Literal["best", "worst", "mean"]
_PICKS: Mapping[Pick, Callable[[Sequence[float]], float]] = {"best": max, "worst": min, "mean": fmean}


class Claim(BaseModel):
    """A sentence of the paper as an inequality between two lines of a panel.

    It holds where the rule's value is at least, or at most, that of `than` plus `by`. The value is the accuracy in
    percent (the mean of the last evaluations), its fluctuation, its mean at the beginning of training, or the time of
    one aggregation.

    Parameters
    ----------
    text : str
        The sentence, in our words.
    rule : str
        The rule that it is about, as the panel names it.
    than : str, list of str or float
        What it is compared with: a rule, the `pick` of several (the largest, the smallest or their mean), or a number.
    panels : list of str, optional
        Where; in every panel by default.
    in_panels : list of str, optional
        Where `than` is read, if not in the same panel; the `pick` of them, where there are several.
    worst_of : list of str, optional
        In place of `panels`: both sides are the worst over these panels.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    rule: str
    than: str | list[str] | float
    is_: Literal["at least", "at most"] = Field(default="at least", alias="is")
    by: float = 0.0
    pick: Pick = "worst"
    measure: Measure = "accuracy"
    panels: list[str] | None = None
    in_panels: list[str] | None = None
    worst_of: list[str] | None = None


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
    rounds : int or None
        After how many rounds, those of the shortest run, where runs differ in length or are shorter than the paper's.
    """

    text: str
    panel: str
    ours: float | None
    other: float | None
    margin: float | None
    rounds: int | None = None

    @property
    def says(self) -> str:
        """The verdict in words."""
        if self.margin is None:
            return "not measured"
        at = "" if self.rounds is None else f", after {self.rounds:,} rounds"
        return f"{'holds' if self.margin >= 0 else 'does not'}, by {abs(self.margin):.2f}{at}"


def verdicts(results: Results) -> list[Verdict]:
    """Each claim of the experiment, in each of its panels."""
    found = []
    for table in results.index["claims"]:
        claim = Claim(**{("is" if key == "is_" else key): value for key, value in table.items()})
        for panels in [claim.worst_of] if claim.worst_of else [[panel] for panel in claim.panels or _panels(results)]:
            rounds = _shortest(claim, results, panels)
            ours = _value(claim, results, panels, claim.rule, "worst", rounds)
            other = _other(claim, results, claim.in_panels or panels, rounds)
            margin = None
            if ours is not None and other is not None:
                margin = ours - other - claim.by if claim.is_ == "at least" else other + claim.by - ours
            panel = f"the worst of {', '.join(panels)}" if len(panels) > 1 else panels[0]
            found.append(Verdict(claim.text, panel, ours, other, margin, rounds if margin is not None else None))
    return found


def _shortest(claim: Claim, results: Results, panels: list[str]) -> int | None:
    """The length of the shortest of the runs that a claim compares; None where all are as long as the paper's."""
    from mixtailor.experiments.config import PRESETS

    names = [] if isinstance(claim.than, (int, float)) else [claim.than] if isinstance(claim.than, str) else claim.than
    sides = [(claim.rule, panels)] + [(name, claim.in_panels or panels) for name in names]
    runs = [run for rule, where in sides for panel in where for run in results.chosen(rule=rule, panel=panel)]
    lengths = {run.rounds for run in runs}
    paper = {data: PRESETS[data]["rounds"] for data in ("mnist", "cifar10")}
    short = any(run.rounds < paper.get(str(run.config.get("data")), 0) for run in runs)
    return min(lengths) if len(lengths) > 1 or (short and claim.measure != "microseconds") else None


def _panels(results: Results) -> list[str]:
    """All of the experiment, where its index names them, else those with runs."""
    return list(results.index.get("panels") or results.panels())


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
    measures: dict[Measure, Callable[[Result], float | None]] = {
        "accuracy": lambda run: run.accuracy(),
        "fluctuation": lambda run: run.fluctuation(),
        "beginning": lambda run: run.beginning(),
        "microseconds": lambda run: run.microseconds(),
    }
    return measures[name]


def _value(
    claim: Claim, results: Results, panels: list[str], rule: str, pick: Pick, rounds: int | None
) -> float | None:
    """The mean over seeds in one panel, or the `pick` of several; None where one of them was not run."""
    measure = _measure(claim.measure)

    def cut(run: Result) -> float | None:
        found = run if rounds is None else run.until(rounds)
        return None if found is None else measure(found)

    values = [results.mean(cut, panel=panel, rule=rule) for panel in panels]
    known = [value for value in values if value is not None]
    return _PICKS[pick](known) if len(known) == len(panels) else None


def _other(claim: Claim, results: Results, panels: list[str], rounds: int | None) -> float | None:
    if isinstance(claim.than, (int, float)):
        return float(claim.than)
    names = [claim.than] if isinstance(claim.than, str) else claim.than
    pick: Pick = "worst" if claim.worst_of else claim.pick
    values = [_value(claim, results, panels, name, pick, rounds) for name in names]
    known = [value for value in values if value is not None]
    return _PICKS[claim.pick](known) if len(known) == len(names) else None
