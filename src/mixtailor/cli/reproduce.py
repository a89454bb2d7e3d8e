"""``mixtailor reproduce``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mixtailor._checks import plural
from mixtailor.cli import _training
from mixtailor.cli._output import Json, console, say, show_json, table

if TYPE_CHECKING:
    from mixtailor.experiments import Experiment

EXAMPLE = "mixtailor reproduce adaptive --scale 0.05 --seeds 1"


class Reading(StrEnum):
    """Which of the paper's two sources is followed where they differ."""

    text = "text"
    code = "code"


def command(
    name: Annotated[str | None, typer.Argument(help="A figure or table of the paper; --list names them.")] = None,
    listing: Annotated[bool, typer.Option("--list", help="Name all figures and tables, and run nothing.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the experiment's file, and run nothing.")] = False,
    epsilon: Annotated[
        Reading, typer.Option(help="Epsilon times the mean (the paper's text) or the sum over f (its code).")
    ] = Reading.text,
    network: Annotated[
        Reading | None,
        typer.Option(
            help="The paper's text (two convolutional, two full layers) or its code (MNIST: a perceptron with 100 "
            "hidden units; CIFAR-10: 3.4 million parameters); by default code on MNIST and text on CIFAR-10.",
        ),
    ] = None,
    panels: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only the panels with this in their title: --panels MNIST")
    ] = None,
    out: _training.Out = Path("results"),
    scale: _training.Scale = 1.0,
    seeds: _training.Seeds = None,
    jobs: _training.Jobs = -1,
    backend: _training.Backend = "loky",
    data: _training.Data = None,
    tracker: _training.Tracker = None,
    figures: Annotated[bool, typer.Option("--figures", help="Also draw each chart as PNG and SVG.")] = False,
    known: Annotated[bool, typer.Option("--known", help="Make no run: use those that are complete in --out.")] = False,
    keep: Annotated[
        Path | None, typer.Option(help="Also add the curves of complete runs to NAME.json in this folder.")
    ] = None,
    from_: Annotated[
        Path | None, typer.Option("--from", help="Train nothing: judge and draw the curves kept in this folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Repeat a figure or table of the MixTailor paper, and compare the results with its numbers and claims."""
    with _training.needed():
        from mixtailor.experiments import shipped, shipped_names
        from mixtailor.experiments.shipped import source

        if listing:
            _list(as_json)
            return
        if name is None:
            raise typer.BadParameter(f"Name a figure or table: {', '.join(shipped_names())}.")
        experiment = shipped(name)
        if show:
            say(source(name))
            return
        if epsilon is Reading.code:
            experiment = experiment.changed(scale_of_epsilon="sum/f").model_copy(update={"name": f"{name}-code"})
        if network is not None and experiment.run:
            experiment = experiment.changed({"network": network.value})
            experiment = experiment.model_copy(update={"name": f"{experiment.name}-{network.value}-network"})
        if from_ is not None:
            _from_curves(experiment, from_, out, figures, as_json)
            return
        name = experiment.name
        if panels is not None:
            experiment = experiment.of_panels(panels)
        experiment = experiment.changed(seeds=_training.seeds_of(seeds)) if experiment.run else experiment
        _training.carry_out(
            experiment,
            out=out,
            scale=scale,
            jobs=jobs,
            backend=backend,
            data=data,
            as_json=as_json,
            figures=figures,
            tracker=tracker,
            known=known,
        )
        if keep is not None:
            from mixtailor.experiments import Results, keep_curves

            path = keep_curves(Results.load(out / experiment.name), keep, name)
            if not as_json:
                say(f"Curves: {path}")


def _from_curves(experiment: "Experiment", folder: Path, out: Path, figures: bool, as_json: bool) -> None:
    from mixtailor.experiments import kept_curves
    from mixtailor.report import draw_results
    from mixtailor.report.summary import summary

    results = kept_curves(experiment, folder)
    written = draw_results(results, out / experiment.name / "figures") if figures else []
    if as_json:
        shown = summary(results)
        kept = {key: shown[key] for key in ("title", "caption", "seeds", "groups", "claims", "numbers", "missing")}
        show_json({**kept, "figures": [str(path) for path in written]})
        return
    _training.show_results(results)
    say(f"{plural(len(results.runs), 'run')} in {folder}, {len(results.missing)} not made yet.")
    if written:
        say(f"Figures: {written[0].parent}")


def _list(as_json: bool) -> None:
    from mixtailor.experiments import shipped, shipped_names

    known = [(name, shipped(name)) for name in shipped_names()]
    if as_json:
        show_json({name: {"title": found.title, "runs": len(found.entries())} for name, found in known})
        return
    rows = [[name, str(len(found.entries())), found.title] for name, found in known]
    console().print(table(["name", "runs", "what"], rows, right=["runs"]))
