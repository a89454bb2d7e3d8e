"""A large grid of rules and attacks, cut by successive halving."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from mixtailor.experiments.results import Results
from mixtailor.experiments.running import run

if TYPE_CHECKING:
    import os

    from mixtailor.experiments.experiment import Entry, Experiment
    from mixtailor.experiments.running import Finished

__all__ = ["Budget", "halved"]

Column = tuple[str, str, str, str]


@dataclass(frozen=True)
class Budget:
    """What a cut grid cost.

    Attributes
    ----------
    made, full : int
        Runs made, and runs of the whole grid.
    stages : tuple of (int, int)
        Of each stage, how many seeds and how many pairs of rule and attack.
    """

    made: int
    full: int
    stages: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        listed = ", ".join(f"{pairs} pairs on {seeds} seed{'s' * (seeds > 1)}" for seeds, pairs in self.stages)
        return f"{self.made} of {self.full} runs: {listed}"


def halved(
    experiment: Experiment, out: str | os.PathLike[str], *, least: int = 4, **options: Any
) -> tuple[list[Finished], Budget]:
    """Run a grid so that seeds go where they matter: to each rule's worst attacks.

    First every rule meets every attack on one seed. Then the half of the attacks that did a rule most harm, and at
    least `least`, meet it on twice as many seeds, and so on until all seeds are used. A rule's worst case is then over
    the attacks that are left. An attack whose harm shows on few seeds only may be cut: the price of the budget.

    Parameters
    ----------
    experiment : Experiment
        With a list of seeds.
    out : path
    least : int
        How many attacks each rule keeps at least.
    **options
        As for `run`.

    References
    ----------
    .. [1] Karnin, Koren, Somekh, "Almost Optimal Exploration in Multi-Armed Bandits", ICML 2013.
    """
    entries = experiment.entries(options.get("scale", 1.0))
    seeds = sorted({entry.config.seed for entry in entries})
    kept = {_column(entry) for entry in entries}
    chosen: set[tuple[Column, int]] = set()
    finished: dict[str, Finished] = {}
    stages, used = [], 1
    while True:
        chosen |= {(column, seed) for column in kept for seed in seeds[:used]}
        done = run(experiment, out, only=_Among(frozenset(chosen)), **options)
        finished.update({item.hash: item for item in done})
        stages.append((used, len(kept)))
        if used >= len(seeds):
            break
        kept = _worst(Results.load(Path(out) / experiment.name), kept, least)
        used = min(len(seeds), 2 * used)
    return list(finished.values()), Budget(len(finished), len({entry.config.hash for entry in entries}), tuple(stages))


@dataclass(frozen=True)
class _Among:
    """Whether an entry was chosen."""

    chosen: frozenset[tuple[Column, int]]

    def __call__(self, entry: Entry) -> bool:
        return (_column(entry), entry.config.seed) in self.chosen


def _column(entry: Entry) -> Column:
    """A rule in a panel against an attack; the setting holds how many workers really are Byzantine."""
    return entry.panel, entry.rule, entry.attack, entry.setting


def _worst(results: Results, kept: set[Column], least: int) -> set[Column]:
    harm: dict[tuple[str, str], dict[Column, list[float]]] = {}
    for result in results.runs:
        column = (result.panel, result.rule, result.attack, result.setting)
        if column in kept and result.complete:
            harm.setdefault(column[:2], {}).setdefault(column, []).append(result.accuracy())
    left: set[Column] = set()
    for columns in harm.values():
        ranked = sorted(columns, key=lambda column: (fmean(columns[column]), column))
        left |= set(ranked[: max(least, math.ceil(len(ranked) / 2))])
    return left
