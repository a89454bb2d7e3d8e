"""Figures from the files of finished runs: to look at, and for a paper."""

from __future__ import annotations

import hashlib
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixtailor._checks import MissingPackageError
from mixtailor._files import atomic_write
from mixtailor.experiments.results import Results
from mixtailor.report.looks import looks
from mixtailor.report.summary import caption, charts, short_titles

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from mixtailor.report.looks import Look
    from mixtailor.report.summary import Chart, Series

__all__ = ["draw", "draw_results", "figure_name"]

LONGEST = 200  # characters of a name, so that a prefix and an ending fit
STYLES = ("page", "paper")
COLUMN, TEXT = 3.25, 6.75  # inches: a column and the text of ICML's template; IEEE's column is 3.5
MULTIPLES = 12  # charts that one figure has room for
LEGEND: dict[str, Any] = {"frameon": False, "handlelength": 2.6, "columnspacing": 1.2}
# Sizes as in the text of a paper; fonts as outlines that editors accept (Type 42), and letters in SVG stay letters.
PAPER: dict[Any, Any] = {
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "legend.fontsize": 7, "axes.linewidth": 0.6, "lines.linewidth": 1.1, "lines.markersize": 3.5, "grid.linewidth": 0.4,
    "pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip


def draw(folder: str | os.PathLike[str], formats: Sequence[str] = ("png", "svg"), *, style: str = "page") -> list[Path]:
    """One figure for each chart of an experiment, in ``figures/`` of its folder, with rounds, seeds and scale below.

    Parameters
    ----------
    folder : path
        Where the experiment's ``experiment.json`` is.
    formats : sequence of str
        What matplotlib can write: "png", "svg", "pdf".
    style : "page" or "paper"
        "paper" is as wide as a column, with the legend below the axes, markers, and no title: captions belong to the
        paper. Up to twelve charts are also drawn side by side, as ``00-all``. The files are in ``paper/``.
    """
    return draw_results(
        Results.load(folder), Path(folder) / ("figures" if style == "page" else style), formats, style=style
    )


def draw_results(
    results: Results,
    folder: str | os.PathLike[str],
    formats: Sequence[str] = ("png", "svg"),
    prefix: str = "",
    wanted: Callable[[str], bool] = lambda _title: True,
    *,
    style: str = "page",
    first: Sequence[str] = (),
) -> list[Path]:
    """One figure for each chart whose title is wanted, in a folder; names of files start with the prefix.

    Rules named `first` have the first colours, so that they look the same in the figures of several experiments.
    The same results give the same bytes, so that a figure that is drawn again does not count as changed.
    """
    if style not in STYLES:
        raise ValueError(f"A figure's style is 'page' or 'paper', not {style!r}.")
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise MissingPackageError("Drawing figures", "matplotlib", "report") from error
    known, written = looks(results, first), []
    numbered = [(number, chart) for number, chart in enumerate(charts(results), 1) if wanted(chart.title)]
    # Without these settings matplotlib writes the date, and identifiers from a random salt, and takes a name between
    # dollars for a formula.
    with rc_context({"svg.hashsalt": "mixtailor", "text.parse_math": False, **(PAPER if style == "paper" else {})}):
        figures = {}
        for number, chart in numbered:
            name = figure_name(number, chart)
            below = caption(results, chart.runs)
            figures[name] = _paper(chart, known) if style == "paper" else _page(chart, known, below)
        if style == "paper" and 1 < len(numbered) <= MULTIPLES:
            figures["00-all"] = _multiples([chart for _, chart in numbered], known)
        for name, figure in figures.items():
            for kind in formats:
                path = Path(folder) / f"{prefix}{name}.{kind}"
                with atomic_write(path) as file:
                    figure.savefig(file, format=kind, dpi=_DPI[style], metadata=_UNDATED.get(kind))
                written.append(path)
    return written


_DPI = {"page": 150, "paper": 600}
_UNDATED: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def _page(chart: Chart, known: Mapping[str, Look], below: str) -> Figure:
    from matplotlib.figure import Figure

    # No pyplot: it keeps figures, and looks for a display.
    figure = Figure(figsize=(6.6, 3.9), layout="constrained")
    axes = figure.subplots()
    _lines(axes, chart, known, linewidth=1.6)
    axes.set(
        title=_wrapped(chart.title, 52),
        xlabel=f"round\n{_wrapped(below, 72)}",
        ylabel="test accuracy (%)",
        ylim=(0, 100),
    )
    axes.grid(alpha=0.3)
    figure.legend(fontsize="x-small", loc="outside right center", frameon=False)  # inside, it would cover lines
    return figure


def _paper(chart: Chart, known: Mapping[str, Look]) -> Figure:
    from matplotlib.figure import Figure

    columns = 2 if max((len(line.rule) for line in chart.series), default=0) <= 26 else 1
    below = 0.14 * -(-len(chart.series) // columns)  # inches of legend, so that all axes are equally high
    figure = Figure(figsize=(COLUMN, 2.0 + below), layout="constrained")
    axes = figure.subplots()
    _marked(axes, chart, known)
    axes.set(xlabel="round", ylabel="test accuracy (%)")
    figure.legend(loc="outside lower center", ncols=columns, **LEGEND)
    return figure


def _multiples(made: Sequence[Chart], known: Mapping[str, Look]) -> Figure:
    """All charts side by side, with the same axes and one legend for all."""
    from matplotlib.figure import Figure

    columns = min(3, len(made))
    rows = -(-len(made) // columns)
    shown = {line.rule: None for chart in made for line in chart.series}
    beside = 3 if max(map(len, shown)) <= 30 else 2
    below = 0.14 * -(-len(shown) // beside)
    figure = Figure(figsize=(TEXT, 1.9 * rows + below), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    handles: dict[str, Line2D] = {}
    titles = short_titles([chart.title for chart in made])
    for place, axes in enumerate(grid.flat):
        if place >= len(made):
            axes.set_visible(False)
            continue
        handles |= {line.rule: artist for line, artist in _marked(axes, made[place], known)}
        axes.set_title(_wrapped(titles[place], 34 if columns == 3 else 50), fontsize=7)
        axes.set_xlabel("round" if place + columns >= len(made) else "")
        axes.set_ylabel("" if place % columns else "test accuracy (%)")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=beside, **LEGEND)
    return figure


def _marked(axes: Axes, chart: Chart, known: Mapping[str, Look]) -> list[tuple[Series, Line2D]]:
    drawn = _lines(axes, chart, known)
    for line, artist in drawn:
        artist.set(marker=known[line.rule].marker, markevery=max(1, len(line.rounds) // 6))
    axes.set_ylim(0, 100)
    axes.margins(x=0.02)
    axes.grid(alpha=0.3)
    return drawn


def _lines(axes: Axes, chart: Chart, known: Mapping[str, Look], **more: Any) -> list[tuple[Series, Line2D]]:
    """Each rule's line in its colour and dashes, with a band over the seeds."""
    drawn = []
    for line in chart.series:
        look = known[line.rule]
        dash: Any = (0, look.dash) if look.dash else "-"
        (artist,) = axes.plot(line.rounds, line.mean, linestyle=dash, color=look.colour, label=line.rule, **more)
        if line.seeds > 1:
            axes.fill_between(line.rounds, line.low, line.high, color=look.colour, alpha=0.15, linewidth=0)
        drawn.append((line, artist))
    return drawn


def figure_name(number: int, chart: Chart) -> str:
    """The name of a chart's file, without its ending: its whole title.

    File systems allow 255 bytes. Of a longer title, the end is replaced by a digest of it: charts still have different
    names.
    """
    words = re.sub(r"[^a-z0-9.]+", "-", chart.title.lower()).strip("-.")
    if len(words) > LONGEST:
        words = f"{words[: LONGEST - 17]}-{hashlib.sha256(chart.title.encode()).hexdigest()[:16]}"
    return f"{number:02d}-{words}"


def _wrapped(text: str, width: int) -> str:
    """Over several lines where it is longer than a figure is wide; nothing is cut."""
    return "\n".join(textwrap.wrap(text, width, break_on_hyphens=False))
