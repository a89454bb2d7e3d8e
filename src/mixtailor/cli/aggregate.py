"""``mixtailor aggregate``."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixtailor._checks import refuse, shown
from mixtailor.cli._output import Json, after_writing, say, show_json
from mixtailor.cli._progress import Readings

if TYPE_CHECKING:
    from mixtailor.cli._folders import Configs
    from mixtailor.intake.files import Opened
    from mixtailor.rules import Aggregation, Rule

EXAMPLE = "mixtailor aggregate updates/*.npy -o out.npy --rule krum --f 1"


def command(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="One file per worker, or one folder of them: .npy, .npz, .safetensors, or a torch checkpoint "
            "(.pt, .pth, .bin); no pickled objects. Or one folder of Hugging Face per worker, an adapter or a model.",
            metavar="FILES",
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write, in any of these formats.")],
    rule: Annotated[
        str,
        typer.Option(
            help="A rule by name, such as krum or 'nnm >> krum(p=3)': see `mixtailor rules`. 'mixtailor' is our pool; "
            "'recommended', with --memory, is for training, round after round."
        ),
    ] = "mixtailor",
    f: Annotated[int | None, typer.Option("--f", help="How many of the files may be Byzantine.")] = None,
    base: Annotated[
        Path | None,
        typer.Option(help="A base model: the differences to it are aggregated, and the result is added to it."),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="An update that you trust, for fltrust and centered_clipping.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the rule: --set p=3")
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(
            help="For --rule recommended: a file for what the server remembers of the workers, by their file names. "
            "Read if it exists, written afterwards. It contains a secret of the server.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="How much each file counts: a JSON object or a .csv of file names and numbers."),
    ] = None,
    cap: Annotated[
        float | None,
        typer.Option(
            help="The largest share of the whole weight that one file may have; the excess is spread over the others."
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            help="How much of the whole weight may be Byzantine; by default the weight of the f heaviest files."
        ),
    ] = None,
    lora: Annotated[
        int | None,
        typer.Option(
            metavar="RANK",
            help="For folders of LoRA adapters: aggregate the products of their factors, with this rank in the result. "
            "0 stacks the factors, which is exact.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Aggregate files, one per worker, into one. Together they may be larger than memory: they are read in blocks."""
    from mixtailor.cli._folders import without, written_folder
    from mixtailor.cli._weights import read_weights
    from mixtailor.cli._writing import check_out, write  # numba loads here, and not for help
    from mixtailor.mixing.mixtailor import warn_not_robust
    from mixtailor.rules.promises import check_tolerates
    from mixtailor.rules.weighting import Weighting

    others = [path for path in (base, reference, memory, weights) if path]
    files = _files(files, [out, *others])
    chosen = _rule(rule, f, _parameters(settings or []))
    warn_not_robust(chosen)
    if f is not None:
        check_tolerates(chosen, f, len(files))
    if lora is not None:
        if others:
            raise typer.BadParameter("--lora takes no --base, --reference, --memory and --weights.")
        _say(_aggregate_lora(files, chosen, lora, out), files, out, as_json)
        return
    configs = _configs(files, out)
    if configs is None:
        check_out(out, [*files, *others])
    remember = None
    if memory is not None:
        remember = _remember(chosen, memory, [*files, out, *(path for path in (base, reference, weights) if path)])
    given = None if weights is None else read_weights(weights, files)
    if given is not None and share is None and f and chosen.declared_f() is None:
        # A rule that takes no f is held to the stated one here too: the f heaviest files may be the Byzantine ones.
        weighting = Weighting.of(chosen, given, cap, None, len(files))
        share = weighting.heaviest(f)
        chosen.check_share(weighting.count, share)
    opened = _opened(files, base, out)
    arrival = opened.arrival if configs is None else without(opened.arrival, configs.faults)
    with _progress() as readings:
        watched = replace(arrival, watch=readings.add)
        names = [path.name for path in files]
        result = chosen.aggregate(watched, workers=names, reference=reference, weights=given, cap=cap, share=share)
    # A result without what was learnt from its updates, or the other way round, would be half of a round.
    if configs is None:
        write(out, result.update, opened.halves, remember)
    else:
        written_folder(out, configs, lambda path: write(path, result.update, opened.halves, remember))
    passes = round(readings.passes, 2)
    _say(result, files, out, as_json, passes)


def _say(result: "Aggregation", files: Sequence[Path], out: Path, as_json: bool, passes: float | None = None) -> None:
    lost: Any = result.facts.get("error")  # by the rank of a low-rank result
    with after_writing(out):
        if as_json:
            counted = {} if passes is None else {"passes": passes}
            counted |= {} if lost is None else {"error": lost}
            show_json({"out": str(out), **counted, "files": [str(path) for path in files], **result.summary()})
        else:
            read = "" if passes is None else f"\n  passes       {passes:g} over the files"
            read += f"\n  rank loses   {lost:.3g} (Frobenius norm over all layers)" if lost else ""
            say(f"{result}{read}\n  written to   {shown(out)}")


def _aggregate_lora(folders: Sequence[Path], rule: "Rule", rank: int, out: Path) -> "Aggregation":
    from mixtailor.cli._folders import check_folder_out, common_adapter, complete_folder, most_bytes
    from mixtailor.lowrank import Adapter, aggregate_low_rank, read_adapter, write_adapter

    check_folder_out(out)
    adapters: list[Adapter] = []
    faults: dict[int, str] = {}
    most = most_bytes([folder / "adapter_model.safetensors" for folder in folders])
    for place, folder in enumerate(folders):
        try:
            adapters.append(read_adapter(folder, most_bytes=most))
        except ValueError as fault:
            adapters.append(Adapter({}, {}))
            faults[place] = str(fault).rstrip(".")
    if len(faults) == len(folders):
        refuse(f"None of these {len(folders)} folders can be read. The first: {faults[0]}.")
    config = common_adapter([each.config for each in adapters], faults)
    names, layers = [path.name for path in folders], [each.layers for each in adapters]
    result = aggregate_low_rank(rule, layers, workers=names, rank=rank or None, faults=faults)
    with complete_folder(out) as folder:
        write_adapter(folder, result.update, config)
    return result


def _files(given: Sequence[Path], others: Sequence[Path]) -> list[Path]:
    """The files as given. A folder alone means its files, by name; no other file of the call may be in it.

    A folder among other files is one update that cannot be read: a worker that puts a folder in the place of its file
    must not count as many workers. For the same reason, what is no regular file in a folder counts as an update.
    """
    from mixtailor.cli._folders import inside as folders_in
    from mixtailor.storage.files.folders import is_model_folder
    from mixtailor.storage.files.formats import SUFFIXES

    if len(given) > 1 or not given[0].is_dir() or is_model_folder(given[0]):
        _refuse_twice(given)
        return list(given)
    folder = given[0]
    for other in others:
        if other.resolve().parent == folder.resolve():
            refuse(f"The folder {str(folder)!r} is for updates, and {other.name!r} is in it. Put that elsewhere.")
    inside = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    inside = [file for file in inside if not file.name.startswith(".")] or folders_in(folder)
    if not inside:
        refuse(f"The folder {str(folder)!r} has no file that ends in {', '.join(SUFFIXES)}, nor adapters or models.")
    return inside


def _refuse_twice(files: Sequence[Path]) -> None:
    """Patterns that overlap name a file twice, and f Byzantine workers would count as more."""
    places = [os.path.abspath(file) for file in files]
    twice = [file for file, count in Counter(places).items() if count > 1]
    if twice:
        refuse(f"{shown(files[places.index(twice[0])])} is given twice. Give one file for each worker.")


def _configs(files: Sequence[Path], out: Path) -> "Configs | None":
    """What folders of Hugging Face say of themselves; None where updates are files."""
    from mixtailor.cli._folders import Configs, check_folder_out
    from mixtailor.storage.files.folders import is_model_folder

    if 2 * sum(is_model_folder(path) for path in files) <= len(files):
        return None
    check_folder_out(out)
    return Configs(files)


def _remember(rule: "Rule", path: Path, inputs: Sequence[Path]) -> Callable[[], None]:
    """Read what the server remembers; what is returned writes it, unless another call has written it meanwhile."""
    from mixtailor.memory import Keeping

    if path.resolve() in [file.resolve() for file in inputs]:
        refuse(f"--memory needs a file of its own, and {path.name!r} is another file of this call.")
    if not isinstance(rule, Keeping):
        refuse(f"--memory needs a rule that remembers, and {rule!r} does not. Give --rule recommended.")
    read = _stamp(path)
    if read is not None:
        rule.load(path)

    def save() -> None:
        if _stamp(path) != read:
            refuse(
                f"{shown(path)} was written by another call since this one read it, and one of the two rounds would be "
                "forgotten. Nothing is written: repeat this call, and make one call at a time."
            )
        rule.save(path)

    return save


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What shows that a file was replaced; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _opened(files: Sequence[Path], base: Path | None, out: Path) -> "Opened":
    """The files, where `out` can hold their result."""
    from mixtailor.cli._writing import check_names
    from mixtailor.intake.files import open_files

    opened = open_files(files, base)
    if out.suffix:
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
