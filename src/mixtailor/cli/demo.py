"""``mixtailor demo``."""

from pathlib import Path
from typing import Any

from mixtailor.cli import _training
from mixtailor.cli._output import Json, say

EXAMPLE = "mixtailor demo"


def command(
    out: _training.Out = Path("results"),
    scale: _training.Scale = 1.0,
    seeds: _training.Seeds = None,
    jobs: _training.Jobs = -1,
    frames: _training.Frames = 10,
    as_json: Json = False,
) -> None:
    """Start here: train twelve workers under attack with ten rules, print a table and write an interactive report."""
    with _training.needed():
        from mixtailor.experiments.shipped import ours

        experiment = ours("demo").changed(seeds=_training.seeds_of(seeds))
        if not as_json:
            say("Twelve workers learn handwritten digits. Two are Byzantine, then four; each line is another rule.")
        options: dict[str, Any] = {"out": out, "scale": scale, "jobs": jobs, "backend": "loky", "data": None}
        _training.carry_out(experiment, **options, as_json=as_json, frames=frames)
