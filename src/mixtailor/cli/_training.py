"""What the commands that train have in common: their options, the runs, the table, the page."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixtailor._checks import MissingPackageError, listing, plural
from mixtailor.cli._output import complain, console, say, show_json, spread, table

if TYPE_CHECKING:
    from mixtailor.experiments import Experiment, Finished, Results, WorstCase
    from mixtailor.simulation.recorded_states import Recording

__all__ = [
    "Backend",
    "Data",
    "Frames",
    "Jobs",
    "Out",
    "Resamples",
    "Scale",
    "Seeds",
    "States",
    "Tracker",
    "carry_out",
    "interval",
    "needed",
    "seeds_of",
]

Out = Annotated[Path, typer.Option(help="Where results go; runs that are complete there are not repeated.")]
Jobs = Annotated[int, typer.Option(help="How many processes; -1 is one for each core.")]
Backend = Annotated[
    str,
    typer.Option(help="The joblib backend: loky, multiprocessing, sequential; with a cluster dask or ray."),
]
Data = Annotated[
    Path | None, typer.Option(help="The folder of data files; by default MIXTAILOR_DATA, or the user's cache.")
]
Scale = Annotated[float, typer.Option(min=1e-9, help="The share of the rounds to run: 0.05 is a twentieth of them.")]
Seeds = Annotated[
    str | None,
    typer.Option(help="How many seeds (3 means 0, 1, 2), or which (4,7,9), in place of the experiment's own."),
]


class TrackerName(StrEnum):
    """A place where numbers go."""

    tensorboard = "tensorboard"
    mlflow = "mlflow"
    wandb = "wandb"


Tracker = Annotated[
    TrackerName | None,
    typer.Option("--tracker", help="Also log each evaluation there; needs `mixtailor[trackers]`."),
]
States = Annotated[int, typer.Option(min=0, help="At how many evaluations to record gradients, for `certify`.")]
Frames = Annotated[
    int,
    typer.Option(min=0, help="How many rounds of each rule and attack to record for the report's player; 0 for none."),
]
Resamples = Annotated[int, typer.Option(min=2, help="How many gradients of each worker to record at each of them.")]


@contextmanager
def needed() -> Iterator[None]:
    """Packages that training needs and the rest of the program does not."""
    try:
        yield
    except ImportError as error:
        packages = {"torch": "torch", "pydantic": "pydantic", "joblib": "joblib", "sklearn": "scikit-learn"}
        if isinstance(error, MissingPackageError) or error.name not in packages:
            raise
        raise MissingPackageError("Training", packages[error.name], "train") from error


def seeds_of(text: str | None) -> list[int] | None:
    """Seeds as they are given on the command line.

    Examples
    --------
    >>> seeds_of("3"), seeds_of("4,7"), seeds_of(None)
    ([0, 1, 2], [4, 7], None)
    """
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0 or numbers == [0]:
        raise typer.BadParameter(f"--seeds needs a count, as in 3, or a list, as in 4,7,9, and got {text!r}.")
    return list(range(numbers[0])) if len(numbers) == 1 else numbers


def carry_out(
    experiment: "Experiment",
    *,
    out: Path,
    scale: float,
    jobs: int,
    backend: str,
    data: Path | None,
    as_json: bool,
    figures: bool = False,
    show: "Callable[[Results], None] | None" = None,
    halving: bool = False,
    recording: "Recording | None" = None,
    tracker: TrackerName | None = None,
    known: bool = False,
    frames: int = 0,
) -> None:
    """Make the runs of an experiment, say what they came to, and write its page. Exits 1 if a run failed."""
    from mixtailor.experiments import Results, run
    from mixtailor.experiments.halving import halved
    from mixtailor.experiments.running import is_complete
    from mixtailor.experiments.watching import watched_runs
    from mixtailor.report import draw, write
    from mixtailor.report.summary import averaged

    budget = None
    only = (lambda entry: is_complete(out / "runs" / entry.config.hash)) if known else None
    with _stoppable(), watched_runs() as watch:
        options: dict[str, Any] = {"scale": scale, "jobs": jobs, "backend": backend, "data": data, "watch": watch}
        options["tracker"] = None if tracker is None else tracker.value
        if recording is not None:
            options["recording"] = recording
        if only is not None:
            options["only"] = only
        if frames:
            options["frames"] = frames
        if halving:
            finished, budget = halved(experiment, out, **options)
        else:
            finished = run(experiment, out, **options)
    folder = out / experiment.name
    results = Results.load(folder)
    page = write(folder)
    written = draw(folder) if figures else []
    if as_json:
        _show_json(results, finished, page, written, budget)
    else:
        (show or show_results)(results)
        if budget is not None:
            say(f"Budget: {budget}.")
        _say_end(finished, averaged(results), page, written)
    for message in failures(finished):
        complain(message)
    if any(done.error for done in finished):
        raise typer.Exit(1)


def failures(finished: "Sequence[Finished]") -> list[str]:
    """One line for each error, with the runs that it stopped: a wrong value stops all runs of a sweep alike.

    Examples
    --------
    >>> from mixtailor.experiments import Finished
    >>> failures([Finished("1", "krum / none / seed 0", error="E"), Finished("2", "krum / none / seed 1", error="E")])
    ['Failed: 2 runs (krum / none / seed 0, krum / none / seed 1): E']
    """
    titles: dict[str, list[str]] = {}
    for done in finished:
        if done.error:
            titles.setdefault(done.error, []).append(done.title)
    return [
        f"Failed: {own[0]}: {error}" if len(own) == 1 else f"Failed: {len(own)} runs ({listing(own, 3)}): {error}"
        for error, own in titles.items()
    ]


@contextmanager
def _stoppable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        complain("Stopped. Complete runs and checkpoints are kept: the same command resumes from there.")
        raise


def show_results(results: "Results") -> None:
    """The worst-case table of each group, then what the paper says, where there is a paper."""
    from mixtailor.experiments.worst import groups, worst_cases

    for group in groups(results):
        cases = worst_cases(group)
        ends = ["worst", "95 %"] if any(map(interval, cases)) else ["worst"]
        rows = []
        for case in cases:
            means = [group.mean(case.rule, attack) for attack in group.attacks]
            shown = ["" if mean is None else f"{mean:.1f}" for mean in means]
            rows.append([case.rule, *shown, f"{case.accuracy:.1f}", interval(case)][: 1 + len(shown) + len(ends)])
        columns = ["rule", *group.attacks, *ends]
        for part in spread(columns, rows, ends=len(ends), right=columns[1:], title=group.title):
            console().print(part)
    show_paper(results)


def interval(case: "WorstCase") -> str:
    """Of the accuracy, over the seeds; one seed says nothing of others."""
    return f"{case.low:.1f}–{case.high:.1f}" if case.seeds > 1 else ""


def show_paper(results: "Results") -> None:
    """The paper's numbers beside ours, and a verdict on each of its sentences."""
    from mixtailor.experiments.claims import numbers_beside, verdicts

    if beside := numbers_beside(results):
        rows = [
            [number.rule, number.panel, number.measure, _range(number.low, number.high), _number(ours)]
            for number, ours in beside
        ]
        console().print(table(["what", "where", "measure", "paper", "ours"], rows, right=["paper", "ours"]))
    if judged := verdicts(results):
        rows = [[v.says, _number(v.ours), _number(v.other), v.panel, v.text] for v in judged]
        columns = ["verdict", "ours", "against", "where", "what the paper says"]
        console().print(table(columns, rows, right=["ours", "against"]))


def _say_end(finished: "Sequence[Finished]", averaged: str, page: Path, written: Sequence[Path]) -> None:
    failed = sum(done.error is not None for done in finished)
    known = sum(done.skipped for done in finished)
    made = plural(len(finished) - known - failed, "run")
    also = f", {failed} failed" if failed else ""
    say(f"{made} made, {known} known before{also}. Accuracies in percent: the mean of {averaged}.")
    if written:
        say(f"Figures: {written[0].parent}")
    say(f"Report: {page}")


def _show_json(
    results: "Results", finished: "Sequence[Finished]", page: Path, written: Sequence[Path], budget: object
) -> None:
    from mixtailor.report.summary import summary

    shown = summary(results)
    kept = {
        key: shown[key]
        for key in ("title", "caption", "averaged", "seeds", "groups", "claims", "numbers", "times", "untimed")
    }
    runs = [{"hash": d.hash, "title": d.title, "accuracy": d.accuracy, "error": d.error} for d in finished]
    show_json(
        {
            **kept,
            "budget": None if budget is None else str(budget),
            "runs": runs,
            "report": str(page),
            "figures": [str(path) for path in written],
        }
    )


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"


def _range(low: float, high: float | None) -> str:
    return f"{low:g}" if high is None else f"{low:g} to {high:g}"
