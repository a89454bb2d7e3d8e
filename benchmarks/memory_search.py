"""A search for the attack that harms the recommended recipe most: schedule, sizes, directions, disguise and splitting.

``python -m benchmarks.memory_search digits --f 4 --momentum server --generations 12`` needs ``pip install cmaes``, and
``--family resonance`` searches among pushes along the curvature of the loss, the strongest attacks that we know. Each
candidate is a training under `benchmarks.memory`, a generation is one batch of them, and the value is the mean accuracy
over the seeds. The best found is then tried on neighbouring variants of the recipe: attacks found against one variant
have harmed others more than what a search against those found.
"""

import argparse
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.memory import SETTINGS, Array, Trainings, recipes
from benchmarks.memory_attacks import Attack, resonance, running_mean, unrelated_resonance

__all__ = ["FAMILIES", "PARAMETERS", "RESONANCE", "planned", "resonant"]

# Name, least, most. A search moves in the unit cube.
PARAMETERS = (
    ("std", -0.5, 2.0),  # against the standard deviations, as ALIE
    ("signs", -0.5, 2.0),  # against the signs of the running mean, as Drift
    ("mean", -0.5, 2.0),  # along the running mean, in lengths of an honest deviation
    ("disguise", 0.0, 1.0),  # how much of an honest worker's own deviation is kept
    ("period", 0.3, 2.3),  # rounds of a cycle, as a power of ten
    ("duty", 0.1, 1.0),  # the share of a cycle with the push
    ("payback", -1.0, 0.5),  # what is sent in the rest of it, in pushes
    ("start", 0.0, 0.9),  # as a share of the rounds
    ("groups", 0.0, 1.0),  # above 0.5, half of the workers are half a cycle late
    ("split", 0.0, 1.0),  # the share of coordinates that only one worker pushes
)
RESONANCE = (
    ("size", 0.0, 3.0),  # of the push, in lengths of an honest deviation
    ("share", 0.0, 3.0),  # of the honest variance that the noise has
    ("against", -0.5, 1.5),  # the present mean, as a part of the push
    ("unrelated", 0.0, 1.0),  # above 0.5, the updates are orthogonal to each other
    ("kept", 0.9, 2.3),  # deviations that stand for the curvature, as a power of ten
    ("period", 0.3, 2.3),
    ("duty", 0.1, 1.0),
    ("payback", -1.0, 0.5),
    ("start", 0.0, 0.9),
)


def valued(parameters: Sequence[tuple[str, float, float]], unit: Sequence[float]) -> dict[str, float]:
    """The parameters of a point in the unit cube."""
    pairs = zip(parameters, unit, strict=True)
    return {name: low + (high - low) * float(min(1.0, max(0.0, place))) for (name, low, high), place in pairs}


def resonant(unit: Sequence[float]) -> Attack:
    """The resonance of a point in the unit cube. Before its start, the workers send pushes of size zero."""
    value = valued(RESONANCE, unit)
    kind = unrelated_resonance if value["unrelated"] > 0.5 else resonance
    none, rest, push = (
        kind(size * value["size"], value["share"], value["against"], int(10 ** value["kept"]))
        for size in (0.0, value["payback"], 1.0)
    )
    period = max(2, int(10 ** value["period"]))

    def attack(honest: Array, b: int, round: int, rounds: int, state: dict[str, Any], random: Any) -> Array:
        if round < value["start"] * rounds:
            return none(honest, b, round, rounds, state, random)
        chosen = push if round % period < max(1, int(value["duty"] * period)) else rest
        return chosen(honest, b, round, rounds, state, random)

    return attack


def planned(unit: Sequence[float]) -> Attack:
    """The attack of a point in the unit cube."""
    value = valued(PARAMETERS, unit)

    def attack(honest: Array, b: int, round: int, rounds: int, state: dict[str, Any], random: Any) -> Array:
        mean, spread = honest.mean(1), honest.std(1)
        running = running_mean(honest, state, 0.9)
        if "owner" not in state:
            state["owner"] = random.integers(b, size=honest.shape[-1])
            state["shared"] = random.random(honest.shape[-1]) >= value["split"]
        own = honest[:, :b] - mean[:, None]
        if round < value["start"] * rounds:
            return np.asarray(honest[:, :b])
        length = np.sqrt((own.astype(np.float64) ** 2).sum((1, 2)) / b)[:, None]
        along = running / np.maximum(np.sqrt((running.astype(np.float64) ** 2).sum(-1, keepdims=True)), 1e-30)
        push = -value["std"] * spread - value["signs"] * spread * np.sign(running) - value["mean"] * length * along
        period = max(2, int(10 ** value["period"]))
        sent = mean[:, None] + value["disguise"] * own
        for worker in range(b):
            late = period // 2 if value["groups"] > 0.5 and worker % 2 else 0
            on = (round + late) % period < max(1, int(value["duty"] * period))
            mask = np.where(state["shared"], 1.0, np.sqrt(b) * (state["owner"] == worker))
            sent[:, worker] += (1.0 if on else value["payback"]) * push * mask
        return sent.astype(np.float32)

    return attack


FAMILIES = {"schedule": (PARAMETERS, planned), "resonance": (RESONANCE, resonant)}


def main(arguments: Sequence[str] | None = None) -> None:
    from cmaes import CMA

    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory_search", description=__doc__)
    parser.add_argument("data", choices=SETTINGS)
    parser.add_argument("--family", choices=FAMILIES, default="schedule")
    parser.add_argument("--f", type=int, default=4)
    parser.add_argument("--n", type=int, default=12)
    parser.add_argument("--momentum", choices=("worker", "server"), default="server")
    parser.add_argument("--against", default="recommended", help="a recipe of benchmarks.memory")
    parser.add_argument("--transfer", default="ViewFilter with memory,NNM >> GM with memory,CAF")
    parser.add_argument("--generations", type=int, default=12)
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=2, help="for the search; as many others check what it found")
    options = parser.parse_args(arguments)
    options.byzantine, options.identities, options.partition = options.f, 0, "iid"
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
