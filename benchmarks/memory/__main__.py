"""The recommended recipe against 73 attacks: hundreds of short trainings at once, in numpy, on small perceptrons.

``python -m benchmarks.memory digits --f 4 --seeds 3`` prints the worst case of each recipe. A training of the
simulation takes a second and one of these a tenth, so that recipes could be compared in minutes. They are batched
copies of the library's, and `tests/benchmarks/test_memory.py` compares the two. MNIST and CIFAR-10 are read from the
folder that MIXTAILOR_DATA names.
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import t

from benchmarks.memory.attacks import ATTACKS as LISTED
from benchmarks.memory.attacks import AVOIDING, TRYING, Array
from benchmarks.memory.found import AFTERWARDS, FOUND
from benchmarks.memory.recipes import recipes
from benchmarks.memory.trainings import Trainings

ATTACKS = {**LISTED, **FOUND}
NAMED = {**ATTACKS, **AFTERWARDS, **AVOIDING, **TRYING}
# What a kept record says of its command, where it is not the default.
_KEPT = ("f", "byzantine", "n", "momentum", "partition", "identities", "rate", "batch", "hidden", "pooling", "rounds")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("data", help="digits, mnist, cifar10, or data of your own: a csv or npz file")
    parser.add_argument("--f", type=int, default=4, help="the f that the recipe is given")
    parser.add_argument("--byzantine", type=int, help="how many there are; f by default")
    parser.add_argument("--n", type=int, default=12)
    parser.add_argument("--momentum", choices=("worker", "server"), default="worker")
    parser.add_argument("--partition", default="iid", help="iid, label, or Dirichlet's alpha")
    parser.add_argument("--identities", type=int, default=0, help="Byzantine identities change every so many rounds")
    parser.add_argument("--rate", type=float, help="a factor for the learning rate")
    parser.add_argument("--batch", type=int, help="examples for each worker and round")
    parser.add_argument("--hidden", type=int, help="hidden units")
    parser.add_argument("--pooling", type=int, help="the side of the pooled squares; 1 keeps all pixels")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--recipes", help="some of them, separated by commas")
    parser.add_argument("--attacks", help="some of them, separated by semicolons")
    parser.add_argument(
        "--worst", type=int, help="all attacks with the first seed, then so many of each recipe's worst with all"
    )
    parser.add_argument("--keep", type=Path, help="a JSON file that gets the numbers, too")
    options = parser.parse_args(arguments)
    given = {name: getattr(options, name) for name in _KEPT if getattr(options, name) != parser.get_default(name)}
    options.byzantine = options.f if options.byzantine is None else options.byzantine
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    chosen = [name.strip() for name in options.attacks.split(";")] if options.attacks else list(ATTACKS)
    honest = Trainings(options.data, [ATTACKS["none"]], seeds, options).run(None)[0]
    print(f"omniscient: {honest.mean():.1f}")
    names = options.recipes.split(",") if options.recipes else list(recipes(options.f, 1))
    tried = len(chosen)
    if options.worst:  # of any recipe: which attacks one seed shows as the worst is partly chance
        first = {name: _accuracies(name, chosen, seeds[:1], options)[:, 0] for name in names}
        worst = [np.array(chosen)[np.argsort(found)[: options.worst]].tolist() for found in first.values()]
        chosen = list(dict.fromkeys(attack for those in worst for attack in those))
    ours: Array | None = None
    kept: dict[str, Any] = {}
    for name in names:
        found = _accuracies(name, chosen, seeds, options)
        means, lowest = found.mean(1), found[found.mean(1).argmin()]
        listed = ", ".join(f"{chosen[place]} {means[place]:.1f}" for place in np.argsort(means)[:3])
        text = f"{name}: {means.min():.1f}, {_interval(honest - lowest)} below omniscient ({listed})"
        print(text if ours is None else f"{text}; {names[0]} is {_compared(ours, found, chosen)}", flush=True)
        below, half = _mean_and_half(honest - lowest)
        kept[name] = {"accuracy": means.min(), "below": below, "interval": half, "attack": chosen[means.argmin()]}
        if ours is not None:
            kept[name]["above"] = _mean_and_half(ours[ours.mean(1).argmin()] - lowest)
        ours = found if ours is None else ours
    if options.keep:
        settings = {"f": options.f, "momentum": options.momentum, **given}
        record = {"data": Path(options.data).stem, "options": settings, "seeds": [seeds[0], seeds[-1]]}
        keep(options.keep, {**record, "attacks": tried, "omniscient": honest.mean(), "recipes": kept})


def keep(path: Path, record: Mapping[str, Any]) -> None:
    """Add a record to a JSON file, in place of what the same command gave before."""
    kept = {_command(each): each for each in [*(json.loads(path.read_text()) if path.exists() else []), record]}
    path.write_text("[\n" + ",\n".join(json.dumps(_rounded(each)) for each in kept.values()) + "\n]\n")


def _command(record: Mapping[str, Any]) -> str:
    return json.dumps([record["data"], record["options"], record["seeds"], sorted(record["recipes"])])


def _rounded(value: Any) -> Any:
    """The same with numbers of two digits."""
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(inner) for inner in value]
    return round(float(value), 2) if isinstance(value, float) else value


def _accuracies(name: str, attacks: Sequence[str], seeds: range, options: argparse.Namespace) -> Array:
    """Of a recipe with an empty memory, (A, S)."""
    alone = [attack for attack in attacks if attack in TRYING]
    together = [attack for attack in attacks if attack not in TRYING]
    found = {}
    for those in ([together] if together else []) + [[attack] for attack in alone]:
        trainings = Trainings(options.data, [NAMED[attack] for attack in those], seeds, options)
        found |= dict(zip(those, trainings.run(recipes(options.f, trainings.d)[name]), strict=True))
    return np.array([found[attack] for attack in attacks])


def _compared(ours: Array, theirs: Array, attacks: Sequence[str]) -> str:
    """How much higher we are, by seed: each under its own worst attack, and under the attack with the largest loss."""
    worst = _interval(ours[ours.mean(1).argmin()] - theirs[theirs.mean(1).argmin()])
    place = (ours - theirs).mean(1).argmin()
    return f"{worst} above it, {_interval((ours - theirs)[place])} where it is least so ({attacks[place]})"


def _interval(values: Array) -> str:
    """The mean over the seeds, with its 95 % interval."""
    mean, half = _mean_and_half(values)
    return f"{mean:.1f}" if len(values) < 2 else f"{mean:.1f} +- {half:.1f}"


def _mean_and_half(values: Array) -> tuple[float, float]:
    """The mean, and half of its 95 % interval: 0 for one value, which has none."""
    if len(values) < 2:
        return float(values.mean()), 0.0
    return float(values.mean()), float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


if __name__ == "__main__":
    main()
