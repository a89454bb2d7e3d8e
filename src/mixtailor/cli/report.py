"""``mixtailor report``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mixtailor.cli import _training
from mixtailor.cli._output import Json, say, show_json

EXAMPLE = "mixtailor report results/demo --figures"


class Style(StrEnum):
    """For whom figures are drawn."""

    PAGE = "page"
    PAPER = "paper"


def command(
    folder: Annotated[Path, typer.Argument(help="The folder of an experiment, or of a single simulation.")],
    figures: Annotated[bool, typer.Option("--figures", help="Also draw each chart as PNG and SVG.")] = False,
    style: Annotated[
        Style,
        typer.Option(
            help="paper: figures as wide as a column, as PDF, SVG and PNG, and the tables as CSV and LaTeX, in paper/."
        ),
    ] = Style.PAGE,
    as_json: Json = False,
) -> None:
    """Write the report of runs, finished or not; with --style paper also figures and tables for a paper."""
    with _training.needed():
        from mixtailor.report import draw, tables, write

        page, listed = write(folder), []
        written = draw(folder) if figures else []
        if style is Style.PAPER:
            written += draw(folder, ("pdf", "svg", "png"), style="paper")
            listed = tables(folder)
    if as_json:
        paths = {"figures": [str(path) for path in written], "tables": [str(path) for path in listed]}
        show_json({"report": str(page), **paths})
        return
    for parent in dict.fromkeys(path.parent for path in written):
        say(f"Figures: {parent}")
    if listed:
        say(f"Tables: {listed[0].parent}")
    say(f"Report: {page}")
