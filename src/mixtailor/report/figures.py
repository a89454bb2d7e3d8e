"""Figures for a paper: PNG and SVG, from the files of finished runs."""

from __future__ import annotations

import hashlib
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from mixtailor._checks import MissingPackageError
from mixtailor._files import atomic_write
from mixtailor.experiments.results import Results
from mixtailor.report.summary import caption, charts

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from mixtailor.report.summary import Chart

__all__ = ["draw", "draw_results", "figure_name"]

COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8b5cf6", "#64748b", "#e11d48", "#65a30d",
    "#0f766e", "#a16207",
)  # fmt: skip
LONGEST = 200  # characters of a name, so that a prefix and an ending fit
DASHES = ("-", "--", ":", "-.")


def draw(folder: str | os.PathLike[str], formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """One figure for each chart of an experiment, in ``figures/`` of its folder, with rounds, seeds and scale below.

    Parameters
    ----------
    folder : path
        Where the experiment's ``experiment.json`` is.
    formats : sequence of str
        What matplotlib can write: "png", "svg", "pdf".
    """
    return draw_results(Results.load(folder), Path(folder) / "figures", formats)


def draw_results(
    results: Results,
    folder: str | os.PathLike[str],
    formats: Sequence[str] = ("png", "svg"),
    prefix: str = "",
    wanted: Callable[[str], bool] = lambda _title: True,
) -> list[Path]:
    """One figure for each chart whose title is wanted, in a folder; names of files start with the prefix.

    The same results give the same bytes, so that a figure that is drawn again does not count as changed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError("Drawing figures", "matplotlib", "report") from error
    rules, written = results.rules(), []
    for number, chart in enumerate(charts(results), 1):
        if not wanted(chart.title):
            continue
        # No pyplot: it keeps figures, and looks for a display.
        figure = Figure(figsize=(5.2, 3.9), layout="constrained")
        axes = figure.subplots()
        for line in chart.series:
            place = rules.index(line.rule)
            colour, dash = COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)]
            axes.plot(line.rounds, line.mean, dash, color=colour, label=line.rule, linewidth=1.6)
            if line.seeds > 1:
                axes.fill_between(line.rounds, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
        axes.set(
            title=_wrapped(chart.title, 52),
            xlabel=f"round\n{_wrapped(caption(results, chart.runs), 72)}",
            ylabel="test accuracy (%)",
            ylim=(0, 100),
        )
        axes.grid(alpha=0.3)
        axes.legend(fontsize="x-small", loc="lower right", framealpha=0.8)
        for kind in formats:
            path = Path(folder) / f"{prefix}{figure_name(number, chart)}.{kind}"
            # matplotlib writes the date, and identifiers from a random salt, unless told otherwise.
            metadata = {"Date": None} if kind == "svg" else None
            with atomic_write(path) as file, rc_context({"svg.hashsalt": "mixtailor"}):
                figure.savefig(file, format=kind, dpi=150, metadata=metadata)
            written.append(path)
    return written


def figure_name(number: int, chart: Chart) -> str:
    """The name of a chart's file, without its ending: its whole title.

    File systems allow 255 bytes. Of a longer title, the end is replaced by a digest of it: it still tells charts apart.
    """
    words = re.sub(r"[^a-z0-9.]+", "-", chart.title.lower()).strip("-.")
    if len(words) > LONGEST:
        words = f"{words[: LONGEST - 17]}-{hashlib.sha256(chart.title.encode()).hexdigest()[:16]}"
    return f"{number:02d}-{words}"


def _wrapped(text: str, width: int) -> str:
    """Over several lines where it is longer than a figure is wide; nothing is cut."""
    return "\n".join(textwrap.wrap(text, width, break_on_hyphens=False))
