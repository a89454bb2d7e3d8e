"""``mixtailor report``."""

from pathlib import Path
from typing import Annotated

import typer

from mixtailor.cli import _training
from mixtailor.cli._output import Json, say, show_json

EXAMPLE = "mixtailor report results/demo --figures"


def command(
    folder: Annotated[Path, typer.Argument(help="The folder of an experiment, or of a single simulation.")],
    figures: Annotated[bool, typer.Option("--figures", help="Also draw each chart as PNG and SVG.")] = False,
    as_json: Json = False,
) -> None:
    """Write the page of an experiment anew, from the files of its runs, finished or not."""
    with _training.needed():
        from mixtailor.report import draw, write

        page = write(folder)
        written = draw(folder) if figures else []
    if as_json:
        show_json({"report": str(page), "figures": [str(path) for path in written]})
        return
    if written:
        say(f"Figures: {written[0].parent}")
    say(f"Report: {page}")
