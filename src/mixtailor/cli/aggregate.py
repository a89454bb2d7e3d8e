"""``mixtailor aggregate``."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixtailor._checks import refuse, shown
from mixtailor.cli._output import Json, after_writing, say, show_json
from mixtailor.cli._progress import Readings

if TYPE_CHECKING:
    from mixtailor.intake.files import Opened
    from mixtailor.rules import Rule

EXAMPLE = "mixtailor aggregate updates/*.npy -o out.npy --rule krum --f 1"


def command(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="One file per worker, or a folder of them: .npy, .npz, .safetensors, or a torch checkpoint "
            "(.pt, .pth, .bin); no pickled objects.",
            metavar="FILES",
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Where the answer goes, in any of these formats; replaced in one step.")
    ],
    rule: Annotated[
        str, typer.Option(help="A rule by name, pre-aggregations in front: 'nnm >> krum(p=3)'. See: mixtailor rules")
    ] = "mixtailor",
    f: Annotated[int | None, typer.Option("--f", help="How many of the files may be Byzantine.")] = None,
    base: Annotated[
        Path | None, typer.Option(help="A base model: differences to it are aggregated and added back.")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="What you trust, for rules that need one: fltrust, centered_clipping.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the rule: --set p=3")
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(
            help="What the server remembers of the workers, by file name: read if it is there, and written afterwards. "
            "For --rule recommended, round after round. It holds a secret of the server.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="How much each file counts: a JSON object or a .csv of file names and numbers."),
    ] = None,
    cap: Annotated[
        float | None, typer.Option(help="The most of the whole weight that one file has; the rest is spread.")
    ] = None,
    share: Annotated[
        float | None, typer.Option(help="How much of the whole weight may be Byzantine; by default the f heaviest.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Aggregate files, one per worker, into one. They may be larger than memory: they are read run by run."""
    from mixtailor.cli._weights import read_weights
    from mixtailor.cli._writing import check_out, write  # numba loads here, and not for help
    from mixtailor.mixing.mixtailor import warn_not_robust
    from mixtailor.rules.promises import check_tolerates

    others = [path for path in (base, reference, memory, weights) if path]
    files = _files(files, [out, *others])
    chosen = _rule(rule, f, _parameters(settings or []))
    warn_not_robust(chosen)
    if f is not None:
        check_tolerates(chosen, f, len(files))
    check_out(out, [*files, *others])
    if memory is not None:
        _remember(chosen, memory, [*files, out, *(path for path in (base, reference, weights) if path)])
    given = None if weights is None else read_weights(weights, files)
    opened = _opened(files, base, out)
    with _progress() as readings:
        watched = replace(opened.arrival, watch=readings.add)
        names = [path.name for path in files]
        result = chosen.aggregate(watched, workers=names, reference=reference, weights=given, cap=cap, share=share)
    write(out, result.update, opened.halves)
    if memory is not None:
        chosen.save(memory)  # type: ignore[attr-defined]  # it is a memory, as was checked
    passes = round(readings.passes, 2)
    with after_writing(out):
        if as_json:
            show_json({"out": str(out), "passes": passes, "files": [str(path) for path in files], **result.summary()})
        else:
            say(f"{result}\n  passes       {passes:g} over the files\n  written to   {shown(out)}")


def _files(given: Sequence[Path], others: Sequence[Path]) -> list[Path]:
    """Files as they are, and of a folder those that can be updates, by name; no other file of the call is in it."""
    from mixtailor.storage.files.formats import SUFFIXES

    found: list[Path] = []
    for path in given:
        if not path.is_dir():
            found.append(path)
            continue
        for other in others:
            if other.resolve().parent == path.resolve():
                refuse(f"The folder {str(path)!r} is for updates, and {other.name!r} is in it. Put that elsewhere.")
        inside = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
        inside = [file for file in inside if not file.name.startswith(".")]
        if not inside:
            refuse(f"The folder {str(path)!r} has no file that ends in {', '.join(SUFFIXES)}.")
        found += inside
    return found


def _remember(rule: "Rule", path: Path, inputs: Sequence[Path]) -> None:
    from mixtailor.memory import Keeping

    if path.resolve() in [file.resolve() for file in inputs]:
        refuse(f"--memory needs a file of its own, and {path.name!r} is another file of this call.")
    if not isinstance(rule, Keeping):
        refuse(f"--memory needs a rule that remembers, and {rule!r} does not. Give --rule recommended.")
    if path.exists():
        rule.load(path)


def _opened(files: Sequence[Path], base: Path | None, out: Path) -> "Opened":
    """The files, where `out` can hold their result."""
    from mixtailor.cli._writing import check_names
    from mixtailor.intake.files import open_files

    opened = open_files(files, base)
    check_names(out, named=opened.named)
    return opened


def _rule(text: str, f: int | None, parameters: dict[str, object]) -> "Rule":
    from mixtailor.mixing.registry import make_rule

    table = {"name": text, **parameters}
    if f is None and make_rule(table, f=0) != make_rule(table, f=1):
        raise typer.BadParameter(f"{text!r} needs to know how many of the files may be Byzantine. Give --f.")
    return make_rule(table, f=f)


def _parameters(settings: Sequence[str]) -> dict[str, object]:
    from mixtailor.mixing.grammar import read_value

    parameters: dict[str, object] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.isidentifier() or not text:
            raise typer.BadParameter(f"--set needs NAME=VALUE, as in --set p=3, and got {setting!r}.")
        if name == "f":
            raise typer.BadParameter("--set does not take f. Give --f.")
        parameters[name] = read_value(text)
    return parameters


@contextmanager
def _progress() -> Iterator[Readings]:
    """A bar for each pass, on a terminal; silence elsewhere."""
    readings = Readings()
    if not sys.stderr.isatty():
        yield readings
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading, pass 1", total=1.0)

        def show(passes: float) -> None:
            bar.update(task, completed=passes % 1.0, description=f"reading, pass {int(passes) + 1}")

        readings.show = show
        yield readings
