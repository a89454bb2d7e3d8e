"""``mixtailor demo``."""

from pathlib import Path

from mixtailor.cli import _training
from mixtailor.cli._output import Json, say

EXAMPLE = "mixtailor demo"


def command(
    out: _training.Out = Path("results"),
    scale: _training.Scale = 1.0,
    seeds: _training.Seeds = None,
    jobs: _training.Jobs = -1,
    as_json: Json = False,
) -> None:
    """See what attacks do to training: twelve workers learn handwritten digits, two or four of them are Byzantine."""
    with _training.needed():
        from mixtailor.experiments.shipped import ours

        experiment = ours("demo").changed(seeds=_training.seeds_of(seeds))
        if not as_json:
            say("Twelve workers learn handwritten digits. Two of them are Byzantine, then four. Each line is a rule.")
        _training.carry_out(experiment, out=out, scale=scale, jobs=jobs, backend="loky", data=None, as_json=as_json)
