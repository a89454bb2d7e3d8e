"""A search for the attack that harms the recommended recipe most: schedule, sizes, directions, disguise and splitting.

``python -m benchmarks.memory.search digits --f 4 --momentum server --generations 12`` needs ``pip install cmaes``, and
``--family resonance`` searches among pushes along the curvature of the loss, the strongest attacks that we know. Each
candidate is a training under `benchmarks.memory`, a generation is one batch of them, and the value is the mean accuracy
over the seeds. The best found is then tried on neighbouring variants of the recipe: attacks found against one variant
have harmed others more than what a search against those found.
"""

import argparse
import json
from collections.abc import Sequence

import numpy as np

from benchmarks.memory.attacks import Array
from benchmarks.memory.found import FAMILIES, valued
from benchmarks.memory.recipes import recipes
from benchmarks.memory.trainings import SETTINGS, Trainings


def main(arguments: Sequence[str] | None = None) -> None:
    from cmaes import CMA

    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory.search", description=__doc__)
    parser.add_argument("data", choices=SETTINGS)
    parser.add_argument("--family", choices=FAMILIES, default="schedule")
    parser.add_argument("--f", type=int, default=4)
    parser.add_argument("--byzantine", type=int, help="how many there are; f by default")
    parser.add_argument("--n", type=int, default=12)
    parser.add_argument("--momentum", choices=("worker", "server"), default="server")
    parser.add_argument("--against", default="recommended", help="a recipe of benchmarks.memory")
    parser.add_argument("--transfer", default="ViewFilter with memory,NNM >> GM with memory,CAF")
    parser.add_argument("--generations", type=int, default=12)
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=2, help="for the search; as many others check what it found")
    options = parser.parse_args(arguments)
    options.byzantine = options.f if options.byzantine is None else options.byzantine
    options.identities, options.partition = 0, "iid"
    parameters, made = FAMILIES[options.family]

    def values(points: Sequence[Array], name: str, seeds: range) -> Array:
        trainings = Trainings(options.data, [made(point.tolist()) for point in points], seeds, options)
        return trainings.run(recipes(options.f, trainings.d)[name]).mean(1)

    searched, checked = range(options.seeds), range(options.seeds, 2 * options.seeds)
    bounds = np.tile([0.0, 1.0], (len(parameters), 1))
    optimiser = CMA(np.full(len(parameters), 0.4), 0.25, bounds=bounds, population_size=options.population, seed=1)
    found: list[tuple[float, Array]] = []
    for generation in range(options.generations):
        points = [optimiser.ask() for _ in range(options.population)]
        scores = values(points, options.against, searched)
        optimiser.tell([(point, float(score)) for point, score in zip(points, scores, strict=True)])
        found += [(float(score), point) for point, score in zip(points, scores, strict=True)]
        print(f"generation {generation + 1}: least {scores.min():.1f}, median {np.median(scores):.1f}", flush=True)
    best = [point for _, point in sorted(found, key=lambda pair: pair[0])[:5]]
    for name in (options.against, *options.transfer.split(",")):
        scores = values(best, name, checked)
        print(f"{name}, other seeds: {', '.join(f'{score:.1f}' for score in scores)}", flush=True)
    print(json.dumps({name: round(value, 3) for name, value in valued(parameters, best[0].tolist()).items()}))


if __name__ == "__main__":
    main()
