"""The worst case: what a rule is worth when the attacker may choose."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mixtailor.experiments.config import label_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixtailor.experiments.results import Result, Results

__all__ = ["Group", "WorstCase", "difference", "groups", "worst_cases"]

RESAMPLES = 2_000
# What an attacker chooses, and what is compared; everything else makes another group.
_FREE = ("rule", "attack", "byzantine", "seed", "rounds", "evaluate_every")


@dataclass(frozen=True)
class Group:
    """Runs that differ in rule, attack, number of Byzantine workers and seed alone.

    Attributes
    ----------
    title : str
    rules, attacks : list of str
        Rows and columns of the table.
    cells : dict
        ``cells[rule][attack][seed]``, accuracy in percent.
    failed : frozenset of str
        Rules with a run that failed: what the attack would have done is not known.
    runs : tuple of Result
        What the cells were computed from.
    """

    title: str
    rules: list[str]
    attacks: list[str]
    cells: dict[str, dict[str, dict[int, float]]]
    failed: frozenset[str] = frozenset()
    runs: tuple[Result, ...] = field(default=(), repr=False)

    def mean(self, rule: str, attack: str) -> float | None:
        """Over the seeds."""
        found = self.cells[rule].get(attack)
        return None if not found else float(np.mean(list(found.values())))


@dataclass(frozen=True)
class WorstCase:
    """The least accuracy of a rule over all attacks, each the mean over seeds, with a 95 % bootstrap interval."""

    rule: str
    attack: str
    accuracy: float
    low: float
    high: float
    seeds: int


def groups(results: Results) -> list[Group]:
    """The runs of an experiment, in groups that can be compared."""
    parted: dict[str, list[Result]] = {}
    for run in results.runs:
        parted.setdefault(_setting(run.config), []).append(run)
    titles = _titles([runs[0].config for runs in parted.values()])
    failed: dict[str, set[str]] = {}
    for entry in results.failed():
        failed.setdefault(_setting(entry["config"]), set()).add(entry["rule"])
    return [
        _group(title, runs, frozenset(failed.get(setting, ())))
        for title, (setting, runs) in zip(titles, parted.items(), strict=True)
    ]


def _setting(config: dict[str, Any]) -> str:
    """What runs of a group have in common."""
    return json.dumps({key: value for key, value in config.items() if key not in _FREE}, sort_keys=True)


def worst_cases(group: Group) -> list[WorstCase]:
    """Each rule's worst case, the best of them first.

    Resampled are the seeds, the same for all attacks, since runs of a seed share their data order. A rule that was not
    run under every attack of the group, or with a run that failed, has no worst case and is left out. Attacks that were
    cut after fewer seeds than others, since they did the rule less harm, have no part in it.
    """
    found = []
    for rule in group.rules:
        found_table = _table(group, rule)
        if found_table is None:
            continue
        table, attacks, _ = found_table
        means = table.mean(1)
        low, high = np.quantile(_resampled(table), [0.025, 0.975])
        worst = int(means.argmin())
        case = WorstCase(rule, attacks[worst], float(means[worst]), float(low), float(high), table.shape[1])
        found.append(case)
    return sorted(found, key=lambda case: -case.accuracy)


def difference(group: Group, one: str, other: str) -> tuple[float, float, float] | None:
    """How much better the worst case of one rule is than the other's, in points, with its 95 % interval."""
    first, second = _table(group, one), _table(group, other)
    if first is None or second is None or first[2] != second[2]:
        return None
    # The same generator, hence the same seeds in each resample: the difference is a paired one.
    samples = _resampled(first[0]) - _resampled(second[0])
    low, high = np.quantile(samples, [0.025, 0.975])
    return float(first[0].mean(1).min() - second[0].mean(1).min()), float(low), float(high)


def _resampled(table: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    seeds = table.shape[1]
    drawn = np.random.default_rng(0).integers(seeds, size=(RESAMPLES, seeds))
    least: np.ndarray[Any, np.dtype[np.float64]] = table[:, drawn].mean(2).min(0)
    return least


def _table(group: Group, rule: str) -> tuple[np.ndarray[Any, np.dtype[np.float64]], list[str], tuple[int, ...]] | None:
    """Accuracies by attack and seed, of the attacks with most seeds; their names; the seeds."""
    cells = {attack: group.cells[rule].get(attack, {}) for attack in group.attacks}
    if rule in group.failed or not all(cells.values()):
        return None
    most = max(len(cell) for cell in cells.values())
    kept = [attack for attack, cell in cells.items() if len(cell) == most]
    seeds = sorted(set.intersection(*(set(cells[attack]) for attack in kept)))
    if not seeds:
        return None
    return np.array([[cells[attack][seed] for seed in seeds] for attack in kept]), kept, tuple(seeds)


def _group(title: str, runs: Sequence[Result], failed: frozenset[str]) -> Group:
    counts = {run.config["byzantine"] for run in runs}
    cells: dict[str, dict[str, dict[int, float]]] = {}
    attacks: dict[str, None] = {}
    for run in runs:
        name = run.attack if len(counts) == 1 else f"{run.attack}, {run.config['byzantine']} Byzantine"
        attacks[name] = None
        cells.setdefault(run.rule, {}).setdefault(name, {})[run.seed] = run.accuracy()
    return Group(title, list(cells), list(attacks), cells, failed, tuple(runs))


def _titles(configs: Sequence[dict[str, Any]]) -> list[str]:
    """What the groups have in common by name, and what distinguishes them."""
    keys = [key for key in configs[0] if key not in _FREE] if configs else []
    apart = [key for key in keys if key not in ("data", "n", "f") and len({json.dumps(c[key]) for c in configs}) > 1]
    return [
        ", ".join([f"{c['data']}, n = {c['n']}, f = {c['f']}", *(f"{key} = {label_of(c[key])}" for key in apart)])
        for c in configs
    ]
