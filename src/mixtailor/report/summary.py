"""What a page and a figure show, computed from the results once."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from mixtailor.experiments.claims import numbers_beside, verdicts
from mixtailor.experiments.worst import groups, worst_cases
from mixtailor.report.looks import class_of, looks, mixes, plain_rule
from mixtailor.report.player import fresh_looks, player
from mixtailor.report.sights import sights
from mixtailor.report.story import story
from mixtailor.rules import Reputation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixtailor.experiments.results import Result, Results
    from mixtailor.rules import Standing

__all__ = [
    "Chart",
    "Series",
    "averaged",
    "caption",
    "charts",
    "drawn_classes",
    "plain_rule",
    "settled",
    "short_titles",
    "summary",
]

MOST_POINTS = 200  # of a line; more cannot be seen


@dataclass(frozen=True)
class Series:
    """One line: a rule's accuracy in percent over the rounds, with the least and the largest of the seeds."""

    rule: str
    rounds: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]
    seeds: int


@dataclass(frozen=True)
class Chart:
    """Lines that share their attack and everything else but the rule."""

    title: str
    series: list[Series]
    runs: list[Result]


def charts(results: Results) -> list[Chart]:
    """One chart for each panel, setting and attack."""
    parted: dict[tuple[str, str, str], list[Result]] = {}
    for run in results.runs:
        parted.setdefault((run.panel, run.setting, run.attack), []).append(run)
    per_panel = Counter(panel for panel, _, _ in parted)
    return [
        Chart(_title(key, per_panel[key[0]]), [_series(rule, own) for rule, own in _by_rule(runs).items()], runs)
        for key, runs in parted.items()
    ]


def short_titles(titles: Sequence[str]) -> list[str]:
    """Titles without the panel that all of them begin with, where they are shown together.

    Examples
    --------
    >>> short_titles(["Two Byzantine: zero", "Two Byzantine: mimic"])
    ['zero', 'mimic']
    >>> short_titles(["Two Byzantine: zero", "Four Byzantine: zero"])
    ['Two Byzantine: zero', 'Four Byzantine: zero']
    """
    panels = {title.rpartition(": ")[0] for title in titles}
    return [title.rpartition(": ")[2] for title in titles] if len(titles) > 1 and len(panels) == 1 else list(titles)


def caption(results: Results, runs: Sequence[Result] | None = None) -> str:
    """Rounds, seeds, and which part of the rounds if not all: what every figure has to say of itself."""
    own = results.runs if runs is None else runs
    if "server" in results.index:
        return f"{results.index['server']['rounds']:,} rounds"
    rounds = sorted({int(run.config["rounds"]) for run in own})
    seeds = sorted({run.seed for run in own})
    parts = [f"{_listed(rounds)} rounds", f"{len(seeds)} seed{'s' if len(seeds) != 1 else ''} ({_listed(seeds)})"]
    if results.index.get("scale", 1) != 1:
        parts.append(f"scale {results.index['scale']:g} of the rounds")
    unfinished, panels = sum(not run.complete for run in own), {run.panel for run in own}
    missing = sum(runs is None or entry["panel"] in panels for entry in results.missing)
    if "scale" in results.index and (unfinished or missing):
        parts.append(f"{unfinished} run{'s' if unfinished != 1 else ''} unfinished, {missing} missing")
    return ", ".join(parts)


def settled(results: Results) -> Results:
    """Without runs under way, where another seed of the same is complete: a mean of both would be no result.

    Examples
    --------
    >>> from mixtailor.experiments import Result, Results
    >>> whole, early = [{"round": 20, "accuracy": 0.9}], [{"round": 10, "accuracy": 0.3}]
    >>> runs = [Result("", "krum", "none", "", "", {"seed": 0}, whole, True)]
    >>> runs += [Result("", "krum", "none", "", "", {"seed": 1}, early, False)]
    >>> [run.seed for run in settled(Results({}, runs, [])).runs]
    [0]
    """

    def place(run: Result) -> tuple[str, str, str, str]:
        return run.panel, run.setting, run.rule, run.attack

    known = {place(run) for run in results.runs if run.complete}
    return replace(results, runs=[run for run in results.runs if run.complete or place(run) not in known])


def averaged(results: Results) -> str:
    """How many evaluations the accuracies are means of, in words.

    Examples
    --------
    >>> from mixtailor.experiments import Result, Results
    >>> records = [{"round": k, "accuracy": 0.5} for k in (0, 10, 20)]
    >>> averaged(Results({}, [Result("", "krum", "none", "", "", {}, records, True)], []))
    'the last 2 evaluations'
    """
    counts = sorted({run.averaged() for run in results.runs})
    if not counts:
        return "the last evaluations"
    few = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    return "the last evaluation" if counts == [1] else f"the last {few} evaluations"


def drawn_classes(runs: Sequence[Result]) -> dict[str, int]:
    """How often each class of rules was applied."""
    counts: Counter[str] = Counter()
    for run in runs:
        for record in run.records:
            for name, count in record["drawn"].items():
                counts[plain_rule(name)] += count
    return dict(counts.most_common())


def summary(results: Results) -> dict[str, Any]:
    """Everything that the page shows, in types that JSON knows."""
    every, results = results, settled(results)
    made = charts(results)
    shown = []
    for chart, short in zip(made, short_titles([chart.title for chart in made]), strict=True):
        series = [{**vars(line)} for line in chart.series]
        shown.append(
            {
                "title": chart.title,
                "short": short,
                "series": series,
                "strips": _strips(chart.runs),
                "chosen": _chosen(chart.runs),
                "accounts": _accounts(chart.runs),
            }
        )
    tables = []
    served = results.index.get("server")  # of a server nobody knows who attacked, and there is nothing to compare
    for group in groups(results) if served is None else []:
        cells = [[_rounded(group.mean(rule, attack)) for attack in group.attacks] for rule in group.rules]
        worst = [{**vars(case)} for case in worst_cases(group)]
        tables.append(
            {"title": group.title, "rules": group.rules, "attacks": group.attacks, "cells": cells, "worst": worst}
        )
    times = _times(results)
    beside = [{**number.model_dump(), "ours": ours} for number, ours in numbers_beside(results)]
    known = {name: {"colour": look.colour, "dash": look.dash} for name, look in looks(results).items()}
    played = player((str(item["short"]), chart.runs) for item, chart in zip(shown, made, strict=True))
    whole = {
        "title": results.index["title"],
        "description": results.index.get("description", ""),
        "caption": caption(every),
        "averaged": averaged(results),
        "story": story(results) if served is None else [],
        "rules": results.rules(),
        "references": [rule for rule in results.rules() if class_of(results.chosen(rule=rule)) == "Omniscient"],
        "looks": {**known, **fresh_looks(played, known)},
        "player": played,
        "server": served,
        "progress": _progress(every),
        "seeds": results.seeds(),
        "charts": shown,
        "groups": tables,
        "draws": _draws(results),
        "weights": _weights(made),
        "times": [item for item in times if item["microseconds"] is not None],
        "untimed": [item["rule"] for item in times if item["microseconds"] is None],
        "claims": [{**vars(verdict), "says": verdict.says} for verdict in verdicts(results)],
        "numbers": beside,
        "configuration": _configuration(results),
        "versions": results.index.get("versions", {}),
        "left_out": results.index.get("left_out", []),
        "missing": [
            {
                "run": f"{item['panel']}: {item['rule']} / {item['attack']} / seed {item['config']['seed']}",
                "why": item["error"],
            }
            for item in results.missing
        ],
    }
    return {**whole, "see": sights(whole)}


def _progress(results: Results) -> dict[str, int]:
    """How many runs are complete, under way, waiting and failed."""
    done, failed = sum(run.complete for run in results.runs), len(results.failed())
    waiting = len(results.missing) - failed
    return {"done": done, "running": len(results.runs) - done, "waiting": waiting, "failed": failed}


def _title(key: tuple[str, str, str], in_panel: int) -> str:
    panel, setting, attack = key
    return panel if in_panel == 1 else ", ".join(part for part in (f"{panel}: {attack}", setting) if part)


def _by_rule(runs: Sequence[Result]) -> dict[str, list[Result]]:
    parted: dict[str, list[Result]] = {}
    for run in runs:
        parted.setdefault(run.rule, []).append(run)
    return parted


def _series(rule: str, runs: Sequence[Result]) -> Series:
    at: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        for record in run.records:
            at[record["round"]].append(100.0 * record["accuracy"])
    # Rounds that not every seed has reached would make the line jump.
    rounds = sorted(round for round, values in at.items() if len(values) == len(runs)) or sorted(at)
    step = -(-len(rounds) // MOST_POINTS)
    kept = sorted({*rounds[::step], rounds[-1]})
    return Series(
        rule,
        kept,
        [round(fmean(at[k]), 2) for k in kept],
        [round(min(at[k]), 2) for k in kept],
        [round(max(at[k]), 2) for k in kept],
        len(runs),
    )


def _strips(runs: Sequence[Result]) -> list[dict[str, Any]]:
    """Of the first seed and each rule that draws: how often each class was drawn between two evaluations."""
    seed, found = min(run.seed for run in runs), []
    for run in (run for run in runs if run.seed == seed and mixes([run])):
        step = -(-len(run.records) // MOST_POINTS)
        periods, start = [], 0
        for place in range(0, len(run.records), step):
            part = run.records[place : place + step]
            counts: Counter[str] = Counter()
            for record in part:
                for name, count in record["drawn"].items():
                    counts[plain_rule(name)] += count
            if counts:
                periods.append({"start": start, "end": part[-1]["round"], "counts": dict(sorted(counts.items()))})
            start = part[-1]["round"]
        found.append({"rule": run.rule, "seed": seed, "periods": periods})
    return found


def _chosen(runs: Sequence[Result]) -> dict[str, Any] | None:
    """Of the first seed: how often each worker was chosen by the rules that choose, and who was Byzantine how often."""
    seed = min(run.seed for run in runs)
    rows = []
    byzantine: Counter[str] = Counter()
    n = int(runs[0].config["n"])
    for run in (run for run in runs if run.seed == seed):
        picked: Counter[str] = Counter()
        for record in run.records:
            picked.update(record["selected"])
        if picked:
            whole = sum(picked.values())
            rows.append({"rule": run.rule, "shares": [round(picked[str(worker)] / whole, 4) for worker in range(n)]})
        if not byzantine:
            for record in run.records:
                byzantine.update(record["byzantine"])
    if not rows:
        return None
    # Where Byzantine workers change, a worker that is marked was honest in some rounds.
    fixed = all(
        count in (0, sum(record["drawn"].values()))
        for record in runs[0].records
        for count in record["byzantine"].values()
    )
    return {
        "seed": seed,
        "rows": rows,
        "byzantine": [byzantine[str(worker)] > 0 for worker in range(n)],
        "fixed": fixed,
    }


def _accounts(runs: Sequence[Result]) -> list[dict[str, Any]]:
    """Of the first seed and each rule: what its server could know of every worker, and who was Byzantine."""
    seed = min(run.seed for run in runs)
    found = []
    for run in (run for run in runs if run.seed == seed):
        account, byzantine = Reputation(), Counter[str]()
        for record in run.records:
            account.add(Reputation.restored(record.get("reputation", {})))
            byzantine.update(record["byzantine"])
        workers = [{"worker": name, "lied": byzantine[name] > 0, **_standing(account[name])} for name in account]
        if workers:
            found.append({"rule": run.rule, "seed": seed, "workers": workers})
    return found


def _standing(standing: Standing) -> dict[str, Any]:
    return {
        "rounds": standing.rounds,
        "selected": standing.selected,
        "expected": round(standing.expected, 1),
        "quarantined": standing.quarantined,
        "distance": None if standing.distance is None else float(f"{standing.distance:.4g}"),
        "farthest": float(f"{standing.farthest:.4g}"),
    }


def _draws(results: Results) -> list[dict[str, Any]]:
    found = []
    for rule in results.rules():
        counts = drawn_classes(results.chosen(rule=rule))
        if len(counts) > 1:
            found.append({"rule": rule, "counts": counts})
    return found


def _weights(made: Sequence[Chart]) -> list[dict[str, Any]]:
    """Of each chart and rule: the mean weight of the Byzantine updates, over the rounds whose result was a combination.

    Runs of different numbers of Byzantine workers are never averaged. A rule whose results are no combinations has
    None for a weight.
    """
    found = []
    for chart, short in zip(made, short_titles([chart.title for chart in made]), strict=True):
        for byzantine, n, runs in _by_share(chart.runs):
            lines = [{"rule": rule, **_weight(own)} for rule, own in _by_rule(runs).items()]
            if byzantine and any(line["weight"] is not None for line in lines):
                found.append({"title": short, "byzantine": byzantine, "n": n, "rules": lines})
    return found


def _by_share(runs: Sequence[Result]) -> list[tuple[int, int, list[Result]]]:
    """The runs by how many of how many workers are Byzantine."""
    parted: dict[tuple[int, int], list[Result]] = {}
    for run in runs:
        parted.setdefault((int(run.config["byzantine"]), int(run.config["n"])), []).append(run)
    return [(byzantine, n, own) for (byzantine, n), own in parted.items()]


def _weight(runs: Sequence[Result]) -> dict[str, Any]:
    """The mean weight and the share of the rounds that it is over."""
    total = weighed = rounds = 0.0
    for run in runs:
        for record in run.records:
            count = sum(record["drawn"].values())
            rounds += count
            if record.get("byzantine_weight") is not None:
                own = record.get("weighed", count)  # the first versions did not count the rounds
                total, weighed = total + own * record["byzantine_weight"], weighed + own
    if not weighed:
        return {"weight": None, "rounds": 0.0}
    return {"weight": round(total / weighed, 4), "rounds": round(weighed / rounds, 4) if rounds else 1.0}


def _times(results: Results) -> list[dict[str, Any]]:
    found = []
    for rule in results.rules():
        spent = [time for run in results.chosen(rule=rule) if (time := run.microseconds()) is not None]
        found.append({"rule": rule, "microseconds": round(median(spent), 1) if spent else None})
    return sorted(found, key=lambda item: item["microseconds"] or 0.0)


def _configuration(results: Results) -> list[tuple[str, str]]:
    """Each key of the configuration and the values that it has in these runs."""
    values: dict[str, dict[str, None]] = {}
    for run in results.runs:
        for key, value in run.config.items():
            if key not in ("rule", "attack"):
                values.setdefault(key, {})[_plain(value)] = None
    return [(key, ", ".join(found)) for key, found in values.items()]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        rest = [f"{key}={item}" for key, item in value.items() if key != "name"]
        return " ".join([*([str(value["name"])] if "name" in value else []), *rest]) or "none"
    return str(value)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _listed(numbers: Sequence[int]) -> str:
    if len(numbers) > 3 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(f"{number:,}" for number in numbers)
