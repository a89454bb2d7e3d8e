"""``mixtailor audit``."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from mixtailor.cli._output import Json, say, show_json

EXAMPLE = "mixtailor audit run.audit"


def command(
    log: Annotated[Path, typer.Argument(help="The log that a run with an audit trail wrote.")],
    commitment: Annotated[
        str | None, typer.Option(metavar="HEX", help="What was published before training: 64 hexadecimal digits.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a log of audited draws from its first line to its last. Exits 1 if any line is wrong."""
    from mixtailor.mixing.audit import verify  # numba loads here, and not for help

    report = verify(log, commitment=commitment)
    if as_json:
        draws = [{**dataclasses.asdict(draw), "key": draw.key.hex()} for draw in report.draws]
        show_json({"ok": report.ok, **dataclasses.asdict(report), "draws": draws})
    else:
        say(str(report))
    if not report.ok:
        raise typer.Exit(1)
