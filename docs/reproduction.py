"""Writes what `reproduction.md` says of the paper's figures and tables, and draws them, from ``docs/results`` alone.

``python docs/reproduction.py`` draws the figures again; ``make docs`` writes the page.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mixtailor.experiments import Experiment, Results, kept_curves, shipped
from mixtailor.experiments.claims import Number, Verdict, numbers_beside, verdicts
from mixtailor.experiments.config import PRESETS
from mixtailor.experiments.results import Result
from mixtailor.report.figures import draw_results, figure_name
from mixtailor.report.summary import Chart, charts

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS / "results"
# In the order of the paper; a variant is a figure, or panels of it, with the other reading of the network.
ORDER = (
    "fig1", "krum-fails", "non-iid", "random", "four-byzantine", "adaptive", "comed-learning-rate", "time",
    "ablation", "alie", "momentum", "hyper-parameters", "readings",
)  # fmt: skip
VARIANTS = {
    "fig1-text-network": ("fig1", "text", "MNIST"),
    "adaptive-text-network": ("adaptive", "text", ""),
    "fig1-code-network": ("fig1", "code", "CIFAR-10"),
}
TIMED = "time"
NOT_RUN = "not run"
NAMES = {
    "krum": "Krum",
    "geometric_median": "geometric median",
    "bulyan": "Bulyan",
    "MixTailor": "MixTailor (paper's pool)",
}

# In every figure a rule has the same colour: that of its place here.
COLOURED = (
    "omniscient",
    "Krum",
    "comed",
    "MixTailor (paper's pool)",
    "MixTailor (our pool)",
    "geometric median",
    "Bulyan",
)


def experiments() -> Iterator[tuple[Experiment, str]]:
    """Each experiment with the command that repeats it; variants only where there are results."""
    for name in ORDER:
        yield shipped(name), f"mixtailor reproduce {name}"
        for variant, (base, network, panels) in VARIANTS.items():
            if base == name and (RESULTS / f"{variant}.json").exists():
                changed = shipped(base).changed({"network": network})
                command = f"mixtailor reproduce {base} --network {network}"
                if panels:
                    changed, command = changed.of_panels(panels), f"{command} --panels {panels}"
                yield changed.model_copy(update={"name": variant}), command


def sections() -> str:
    """The page's part on the paper: what was run, then each figure and table."""
    everything = [(experiment, command, kept_curves(experiment, RESULTS)) for experiment, command in experiments()]
    parts = [_overview(everything)]
    seen: set[frozenset[str]] = set()
    for experiment, command, results in everything:
        parts.append(_section(experiment, command, results, seen))
    return "\n\n".join(parts)


def numbers(short: bool = False) -> str:
    """The accuracies that the paper gives, beside ours, and those of Fig. 1, for which it gives only a picture.

    The short form has only rules that were run in every column, and one number for each.
    """
    adaptive, fig1 = (kept_curves(shipped(name), RESULTS) for name in ("adaptive", "fig1"))
    given = {number.rule: number for number, _ in numbers_beside(adaptive)}
    lines = []
    for rule in ("omniscient", "MixTailor", "MixTailor (our pool)", "geometric_median", "comed", "bulyan", "krum"):
        where = [(adaptive, None), (fig1, "MNIST, epsilon = 0.1"), (fig1, "MNIST, epsilon = 10")]
        ours = [_seeds(results, rule, panel) for results, panel in where]
        if not short or NOT_RUN not in ours or rule in given:
            lines.append([_name(rule), _range(given[rule].low, given[rule].high) if rule in given else "–", *ours])
    header = ("", "adaptive, the paper", "adaptive, ours", "epsilon 0.1, ours", "epsilon 10, ours")
    return _table(header, lines)


def readings() -> str:
    """For each number that the paper gives: how far each reading of text and code is from it."""
    results = kept_curves(shipped("readings"), RESULTS)
    panels = [panel for panel in results.index["panels"] if panel.startswith("adaptive, ")]
    beside = {(number.panel, number.rule): (number, ours) for number, ours in numbers_beside(results)}
    rules = list(dict.fromkeys(rule for _, rule in beside))
    lines = []
    for panel in panels:
        cells = []
        for rule in rules:
            number, ours = beside.get((panel, rule), (None, None))
            runs = results.chosen(panel=panel, rule=rule)
            told = NOT_RUN if ours is None or number is None else _off(number, ours) + _length(runs[0])
            cells.append("not changed" if number is None else told)
        lines.append([panel.removeprefix("adaptive, "), *cells])
    heads = [f"{_name(rule)}, the paper {_range(*_ends_of(beside, rule))}" for rule in rules]
    return _table(("Reading", *heads), lines)


def _ends_of(beside: Mapping[tuple[str, str], tuple[Number, float | None]], rule: str) -> tuple[float, float | None]:
    number = next(found for (_, name), (found, _) in beside.items() if name == rule)
    return number.low, number.high


def _off(number: Number, ours: float) -> str:
    """A number of ours, and how far it is outside the paper's range."""
    high = number.low if number.high is None else number.high
    off = ours - high if ours > high else ours - number.low if ours < number.low else 0.0
    return f"{ours:.2f} ({off:+.2f})" if off else f"{ours:.2f} (inside)"


def figures() -> list[Path]:
    """Draw every picture of the page."""
    written: list[Path] = []
    seen: set[frozenset[str]] = set()
    for experiment, _ in experiments():
        results = kept_curves(experiment, RESULTS)
        fresh = {chart.title for _, chart in _fresh(results, seen)}
        prefix = f"paper-{experiment.name}-"
        named = Results(results.index, [replace(run, rule=_name(run.rule)) for run in results.runs], results.missing)
        folder = DOCS / "figures"
        written += draw_results(named, folder, ["svg"], prefix, wanted=fresh.__contains__, first=COLOURED)
    for path in (DOCS / "figures").glob("paper-*.svg"):
        if path not in written:
            path.unlink()
    return written


def _fresh(results: Results, seen: set[frozenset[str]]) -> list[tuple[int, Chart]]:
    """The charts of more than one rule whose runs no earlier chart shows: several experiments share runs."""
    found: list[tuple[int, Chart]] = []
    if results.index["name"] == TIMED:  # its accuracies, after a few rounds, say nothing
        return found
    for number, chart in enumerate(charts(results), 1):
        hashes = frozenset(run.hash for run in chart.runs)
        if len(chart.series) > 1 and not any(hashes <= other for other in seen):
            found.append((number, chart))
            seen.add(hashes)
    return found


def _overview(everything: Sequence[tuple[Experiment, str, Results]]) -> str:
    lines = []
    for experiment, _, results in everything:
        if not experiment.run:
            continue
        judged = verdicts(results)
        counts = [
            sum(verdict.margin is not None and verdict.margin >= 0 for verdict in judged),
            sum(verdict.margin is not None and verdict.margin < 0 for verdict in judged),
            sum(verdict.margin is None for verdict in judged),
        ]
        made = len({run.hash for run in results.runs})
        asked = made + len({entry["hash"] for entry in results.missing})
        rounds = sorted({int(run.config["rounds"]) for run in results.runs})
        seeds = results.seeds()
        lines.append(
            [
                f"[`{experiment.name}`](#{_anchor(_heading(experiment))})",
                f"{made} of {asked}",
                ", ".join(f"{count:,}" for count in rounds) or "–",
                ", ".join(map(str, seeds)) or "–",
                *map(str, counts),
            ]
        )
    header = ("Experiment", "Runs made", "Rounds", "Seeds", "Sentences that hold", "do not", "not measured")
    return _table(header, lines)


def _section(experiment: Experiment, command: str, results: Results, seen: set[frozenset[str]]) -> str:
    parts = [f"### {_heading(experiment)}", f"`{command}`"]
    pictures = [
        f"![{chart.title}](figures/paper-{experiment.name}-{figure_name(number, chart)}.svg)"
        for number, chart in _fresh(results, seen)
    ]
    if pictures:
        parts.append("\n".join(pictures))
    if results.runs and experiment.name != TIMED:
        parts.append(_accuracies(results))
    if results.missing:
        parts.append(_not_run(results))
    if beside := numbers_beside(results):
        lines = [
            [_name(number.rule), number.panel, number.measure, _range(number.low, number.high), _ours(number, ours)]
            for number, ours in beside
        ]
        parts.append(_table(("What", "Where", "Measure", "Paper", "Ours"), lines))
    if judged := verdicts(results):
        parts.append(_judged(judged))
    return "\n\n".join(parts)


def _heading(experiment: Experiment) -> str:
    variant = VARIANTS.get(experiment.name)
    return experiment.title if variant is None else f"{experiment.title}: the network of the {variant[1]}"


def _accuracies(results: Results) -> str:
    """Rows are rules, columns panels; each seed's accuracy, the mean of its last five evaluations."""
    panels = results.panels()
    lines = []
    for rule in results.rules():
        cells = []
        for panel in panels:
            cells.append(_seeds(results, rule, panel))
        lines.append([_name(rule), *cells])
    ends = [_ends(results, panel) for panel in panels]
    shown = [panel if panel != results.index["title"] else "Accuracy" for panel in panels]
    return _table(("", *shown), [*lines, ["rounds", *ends]])


def _seeds(results: Results, rule: str, panel: str | None = None) -> str:
    wanted = {"rule": rule} if panel is None else {"rule": rule, "panel": panel}
    runs = sorted(results.chosen(**wanted), key=lambda run: run.seed)
    return ", ".join(f"{run.accuracy():.2f}{_length(run)}" for run in runs) or NOT_RUN


def _length(run: Result) -> str:
    """After how many rounds, where these are not the paper's."""
    preset = PRESETS.get(run.config["data"])
    return "" if preset is None or run.rounds == preset["rounds"] else f" (after {run.rounds:,})"


def _ends(results: Results, panel: str) -> str:
    rounds = sorted({int(run.config["rounds"]) for run in results.chosen(panel=panel)})
    return ", ".join(f"{count:,}" for count in rounds)


def _not_run(results: Results) -> str:
    parted: dict[str, dict[int, list[str]]] = {}
    for entry in results.missing:
        rules = parted.setdefault(entry["panel"], {}).setdefault(entry["config"]["seed"], [])
        if _name(entry["rule"]) not in rules:
            rules.append(_name(entry["rule"]))
    everything = {run.panel for run in results.runs} | set(parted)
    told = []
    for panel, seeds in parted.items():
        same = {tuple(rules) for rules in seeds.values()}
        which = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))}"
        where = f"{panel}, " if len(everything) > 1 else ""
        if len(everything) == 1 and not results.runs:
            told.append("everything")
        elif not results.chosen(panel=panel):
            told.append(f"{panel} (all)")
        elif len(same) == 1:
            told.append(f"{where}{which}: {', '.join(same.pop())}")
        else:
            told += [f"{where}seed {seed}: {', '.join(rules)}" for seed, rules in sorted(seeds.items())]
    return f"Not run: {'; '.join(told)}."


def _judged(judged: Sequence[Verdict]) -> str:
    alone = len({verdict.panel for verdict in judged}) == 1
    lines = [[v.text, *([] if alone else [v.panel]), v.says, _number(v.ours), _number(v.other)] for v in judged]
    return _table(("What the paper says", *([] if alone else ["Where"]), "Here", "Ours", "Against"), lines)


def _name(rule: str) -> str:
    return NAMES.get(rule, rule)


def _anchor(heading: str) -> str:
    kept = "".join(letter for letter in heading.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def _ours(number: Number, ours: float | None) -> str:
    """Of a setting all digits, such as a learning rate of 0.001; of a result two."""
    return f"{ours:g}" if number.measure == "preset" and ours is not None else _number(ours)


def _number(value: float | None) -> str:
    return NOT_RUN if value is None else f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def _range(low: float, high: float | None) -> str:
    return f"{low:g}" if high is None else f"{low:g} to {high:g}"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    made = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(made + ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines])


if __name__ == "__main__":
    drawn = figures()
    print(f"{len(drawn)} figures in {DOCS / 'figures'}")
    sys.exit(0)
