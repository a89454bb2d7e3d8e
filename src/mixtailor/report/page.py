"""The page: one HTML file that needs nothing but a browser."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixtailor._checks import MissingPackageError
from mixtailor._files import atomic_write
from mixtailor.experiments.results import Results
from mixtailor.report.graphs import graphs_of
from mixtailor.report.summary import summary
from mixtailor.report.terms import TERMS, explained

if TYPE_CHECKING:
    import os

__all__ = ["rendered", "write"]

SCRIPTS = ("base.js", "player.js", "page.js")
STYLES = ("page.css", "player.css")


def write(folder: str | os.PathLike[str]) -> Path:
    """Write ``report.html`` into the folder of an experiment, from the files of its runs.

    Parameters
    ----------
    folder : path
        Where the experiment's ``experiment.json`` is.

    Returns
    -------
    Path
        The page. It holds everything that it shows, and loads nothing else.
    """
    text = rendered(Results.load(folder))
    path = Path(folder) / "report.html"
    with atomic_write(path) as file:
        file.write(text.encode())
    return path


def rendered(results: Results, *, live: bool = False) -> str:
    """The text of the page; a live one asks the server that it came from for changes."""
    try:
        import jinja2
    except ImportError as error:
        raise MissingPackageError("The report", "jinja2", "report") from error
    shown = summary(results)
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["heat"] = _heat
    environment.filters["explained"] = explained
    environment.filters["percent"] = lambda value: "" if value is None else f"{value:.1f}"
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "separators": (",", ":")}
    page = environment.from_string(_part("page.html"))
    # Scripts and styles are ours; whatever came from an experiment is escaped where it is used.
    scripts = [*SCRIPTS, *(["live.js"] if live else [])]
    script = '"use strict";\n(() => {\n' + "\n".join(map(_part, scripts)) + "})();"
    style = "\n".join(map(_part, STYLES))
    graphs = [{**graph, "svg": _markup(graph["svg"])} for graph in graphs_of(results)]  # of numbers alone
    told = {"graphs": graphs, "terms": TERMS, "known": set, "live": live}
    text = page.render(shown=shown, **told, style=_markup(style), script=_markup(script))
    return text.encode("utf-8", "backslashreplace").decode()  # file names that are no text become halves of letters


def _heat(value: float | None) -> str:
    """The background of an accuracy: nothing at 100, stronger the lower."""
    return "" if value is None else f"--heat: {min(1.0, max(0.0, 1.0 - value / 100.0)):.3f}"


def _part(name: str) -> str:
    return (files("mixtailor.report") / name).read_text(encoding="utf-8")


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)
