"""The worst-case tables as CSV and LaTeX, from the files of finished runs."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mixtailor._files import atomic_write
from mixtailor.experiments.results import Results
from mixtailor.experiments.worst import groups, worst_cases
from mixtailor.report.looks import class_of
from mixtailor.report.summary import averaged

if TYPE_CHECKING:
    import os

    from mixtailor.experiments.worst import Group

__all__ = ["as_csv", "as_latex", "tables"]

_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}"}
_SPECIAL |= {">": r"\textgreater{}", **{sign: f"\\{sign}" for sign in "&%$#_{}"}}


def tables(folder: str | os.PathLike[str]) -> list[Path]:
    """Each worst-case table of an experiment as CSV and LaTeX, in ``paper/`` of its folder.

    Parameters
    ----------
    folder : path
        Where the experiment's ``experiment.json`` is.
    """
    results, written = Results.load(folder), []
    for number, group in enumerate(groups(results), 1):
        for ending, text in (("csv", as_csv(group)), ("tex", as_latex(group, averaged(results)))):
            path = Path(folder) / "paper" / f"table-{number:02d}.{ending}"
            with atomic_write(path) as file:
                file.write(text.encode())
            written.append(path)
    return written


def as_csv(group: Group) -> str:
    """One line for each rule: its mean accuracy under each attack, its worst case and that one's interval.

    Examples
    --------
    >>> from mixtailor.experiments.worst import Group
    >>> print(as_csv(Group("digits", ["Krum"], ["a, b"], {"Krum": {"a, b": {0: 50.0, 1: 51.0}}})), end="")
    rule,"a, b",worst,worst_attack,low,high,seeds
    Krum,50.5,50.5,"a, b",50.0,51.0,2
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["rule", *map(_inert, group.attacks), "worst", "worst_attack", "low", "high", "seeds"])
    for rule, means, worst in _rows(group):
        shown = ["" if mean is None else _digits(mean) for mean in means]
        end = (
            [_digits(worst[0]), _inert(worst[1]), _digits(worst[2]), _digits(worst[3]), worst[4]] if worst else [""] * 5
        )
        table.writerow([_inert(rule), *shown, *end])
    return text.getvalue()


def as_latex(group: Group, mean_of: str = "the last evaluations") -> str:
    """A table that needs the package booktabs. The best number of each column is bold, the omniscient reference apart.

    Examples
    --------
    >>> from mixtailor.experiments.worst import Group
    >>> print(as_latex(Group("a_b", ["Krum", "mean"], ["x"], {"Krum": {"x": {0: 50.0}}, "mean": {"x": {0: 9.0}}})))
    % Needs \\usepackage{booktabs}. a_b. Accuracies in percent, the mean of the last evaluations.
    \\begin{tabular}{lrr}
    \\toprule
    rule & x & worst \\\\
    \\midrule
    Krum & \\textbf{50.0} & \\textbf{50.0} \\\\
    mean & 9.0 & 9.0 \\\\
    \\bottomrule
    \\end{tabular}
    <BLANKLINE>
    """
    rows = _rows(group)
    columns = [[*means, worst[0] if worst else None] for _, means, worst in rows]
    # The reference knows who is Byzantine: it has no part in the comparison.
    real = [values for (rule, _, _), values in zip(rows, columns, strict=True) if not _knows(group, rule)]
    best = [
        max((value for value in column if value is not None), default=None)
        for column in zip(*(real or columns), strict=True)
    ]
    lines = [
        f"% Needs \\usepackage{{booktabs}}. {' '.join(group.title.split())}. "
        f"Accuracies in percent, the mean of {mean_of}.",
        f"\\begin{{tabular}}{{l{'r' * (len(group.attacks) + 1)}}}",
        "\\toprule",
        _line(["rule", *map(escaped, group.attacks), "worst"]),
        "\\midrule",
    ]
    for (rule, _, _), values in zip(rows, columns, strict=True):
        lines.append(_line([escaped(rule), *(_cell(value, top) for value, top in zip(values, best, strict=True))]))
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def escaped(text: str) -> str:
    """Text that LaTeX sets as it is written.

    Examples
    --------
    >>> escaped("NNM >> 5 %")
    'NNM \\\\textgreater{}\\\\textgreater{} 5 \\\\%'
    """
    return "".join(_SPECIAL.get(sign, sign) for sign in " ".join(text.split()))


def _rows(group: Group) -> list[tuple[str, list[float | None], tuple[float, str, float, float, int] | None]]:
    """The rules, those with the best worst case first and those without one last."""
    cases = {case.rule: case for case in worst_cases(group)}
    order = [*cases, *(rule for rule in group.rules if rule not in cases)]
    found = []
    for rule in order:
        case = cases.get(rule)
        worst = None if case is None else (case.accuracy, case.attack, case.low, case.high, case.seeds)
        found.append((rule, [group.mean(rule, attack) for attack in group.attacks], worst))
    return found


def _knows(group: Group, rule: str) -> bool:
    return class_of([run for run in group.runs if run.rule == rule]) == "Omniscient"


def _digits(value: float) -> float:
    return round(float(value), 4)


def _inert(text: str) -> str:
    """A name that a spreadsheet does not take for a formula."""
    return f"'{text}" if re.match(r"[=+\-@\t\r]", text) else text


def _line(cells: list[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _cell(value: float | None, best: float | None) -> str:
    if value is None:
        return "--"
    return f"\\textbf{{{value:.1f}}}" if best is not None and f"{value:.1f}" == f"{best:.1f}" else f"{value:.1f}"
