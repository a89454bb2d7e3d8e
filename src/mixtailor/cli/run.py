"""``mixtailor run``."""

from pathlib import Path
from typing import Annotated

import typer

from mixtailor.cli import _training
from mixtailor.cli._output import Json

EXAMPLE = "mixtailor run experiment.toml --jobs 2"


def command(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file; lists in it make a sweep.")],
    out: _training.Out = Path("results"),
    scale: _training.Scale = 1.0,
    seeds: _training.Seeds = None,
    jobs: _training.Jobs = -1,
    backend: _training.Backend = "loky",
    data: _training.Data = None,
    figures: Annotated[bool, typer.Option("--figures", help="Also draw each chart as PNG and SVG.")] = False,
    states: _training.States = 0,
    resamples: _training.Resamples = 10,
    frames: _training.Frames = 10,
    tracker: _training.Tracker = None,
    as_json: Json = False,
) -> None:
    """Train under attack as a TOML file describes. After a stop, the same command continues."""
    with _training.needed():
        from mixtailor.experiments import Experiment
        from mixtailor.simulation.recorded_states import Recording

        experiment = Experiment.read(file).changed(seeds=_training.seeds_of(seeds))
        _training.carry_out(
            experiment,
            out=out,
            scale=scale,
            jobs=jobs,
            backend=backend,
            data=data,
            as_json=as_json,
            figures=figures,
            recording=Recording(states, resamples) if states else None,
            tracker=tracker,
            frames=frames,
        )
