"""Colours, dashes and markers: one look for each rule, the same in every figure and on the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixtailor.experiments.results import Result, Results

__all__ = ["COLOURS", "Look", "class_of", "classes_of", "contrast", "looks", "mixes", "plain_rule"]

# Each has a contrast of at least 3 to the page, light and dark, which WCAG 2.2 asks of lines (1.4.11).
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#0891b2", "#8b5cf6", "#64748b", "#e11d48", "#5b940a",
    "#0f766e", "#a16207",
)  # fmt: skip
DASHES = ((), (6, 3), (2, 2), (8, 3, 2, 3))
MARKERS = "osD^vP*X<>ph"


@dataclass(frozen=True)
class Look:
    """How a rule is drawn: its colour, the lengths of its dashes, and its marker as matplotlib names it."""

    colour: str
    dash: tuple[int, ...]
    marker: str


def looks(results: Results, first: Sequence[str] = ()) -> dict[str, Look]:
    """One look for each rule of an experiment, and for each class of rules that was drawn.

    The rules that are named `first` have the first looks, whether they were run or not: where several experiments are
    shown together, each of these rules looks the same in all of them. A class that was also run on its own, as one
    rule, looks like that rule: Krum has one colour, as a line of its own and as a draw of a MixTailor.
    """
    known: dict[str, Look] = {}
    for rule in dict.fromkeys([*first, *results.rules()]):
        known[rule] = _look(len(known))
    found = dict(known)
    for rule in results.rules():
        own = class_of(results.chosen(rule=rule))
        if own is not None:
            found.setdefault(own, known[rule])
    fresh = len(known)
    for name in classes_of(results.runs):
        if name not in found:
            found[name] = _look(fresh)
            fresh += 1
    return found


def class_of(runs: Sequence[Result]) -> str | None:
    """The one class of rules that was applied in all these runs, or None if there were several or none is known."""
    classes = classes_of(runs)
    return classes[0] if len(classes) == 1 else None


def mixes(runs: Sequence[Result]) -> bool:
    """Whether rules of several classes were applied. Curves that were kept without their draws do not say so."""
    return len(classes_of(runs)) > 1


def classes_of(runs: Sequence[Result]) -> list[str]:
    """The classes of rules that were applied, in order of their first use."""
    names = (plain_rule(name) for run in runs for record in run.records for name in record["drawn"])
    return list(dict.fromkeys(names))


def plain_rule(text: str) -> str:
    """A rule without its parameters.

    Examples
    --------
    >>> plain_rule("NNM(f=2) >> Bulyan(f=2, selection=Mean(), then=Krum(f=2))")
    'NNM >> Bulyan'
    """
    kept: list[str] = []
    opened: list[int] = []  # where in `kept` each open parenthesis is
    for letter in text:
        if letter == ")" and opened:
            del kept[opened.pop() :]
            continue
        if letter == "(":
            opened.append(len(kept))
        kept.append(letter)
    return "".join(kept)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as WCAG 2.2 defines it: 1 to 21.

    Examples
    --------
    >>> contrast("#ffffff", "#000000")
    21.0
    """
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _look(place: int) -> Look:
    turn = place // len(COLOURS)
    return Look(COLOURS[place % len(COLOURS)], DASHES[turn % len(DASHES)], MARKERS[(place + turn) % len(MARKERS)])


def _luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
