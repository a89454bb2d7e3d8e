"""How near the lower bound for workers whose data differ lets any server come, in the trainings of `benchmarks.memory`.

``python -m benchmarks.heterogeneity digits --partition label`` trains an omniscient server, measures how much the
honest workers' gradients differ at its end (G), and prints the squared gradient that no server can promise to go below
(`mixtailor.theory.heterogeneity_bound`), beside the squared gradients and accuracies of the omniscient server over time
and of the recommended recipe at its end.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks.memory.attacks import ATTACKS, Array
from benchmarks.memory.recipes import recipes
from benchmarks.memory.trainings import SETTINGS, Trainings
from mixtailor.theory import heterogeneity_bound

_SAMPLES = 512  # of each worker's examples, for a gradient


def measured(trainings: Trainings, weights: Array, honest: Array) -> tuple[float, float]:
    """The squared norm of the honest workers' mean gradient, and G^2, averaged over attacks and seeds."""
    batch, trainings.batch = trainings.batch, _SAMPLES
    gradients = trainings._gradients(weights, [np.random.default_rng(k) for k in range(weights.shape[1])])
    trainings.batch = batch
    squares, spreads = [], []
    for seed, those in enumerate(honest):
        rows = gradients[:, seed, those].astype(np.float64)
        mean = rows.mean(1)
        squares.append((mean**2).sum(-1).mean())
        spreads.append(((rows - mean[:, None]) ** 2).sum(-1).mean())
    return float(np.mean(squares)), float(np.mean(spreads))


def shown(point: tuple[int, float, float, float]) -> str:
    _, accuracy, square, spread = point
    return f"accuracy {accuracy:.1f}, squared gradient {square:.3g}, G^2 {spread:.3g}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.heterogeneity", description=__doc__)
    parser.add_argument("data", choices=SETTINGS)
    parser.add_argument("--partition", default="label", help="iid, label, or Dirichlet's alpha")
    parser.add_argument("--f", type=int, default=2)
    parser.add_argument("--n", type=int, default=12)
    parser.add_argument("--momentum", choices=("worker", "server"), default="worker")
    parser.add_argument("--attacks", default="drift 0.5,along the mean 0.7,ALIE 1,Min-Sum")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(arguments)
    options.byzantine, options.identities = options.f, 0
    seeds = range(options.seeds)
    path: list[tuple[int, float, float, float]] = []

    def watch(round: int, weights: Array, honest: Array) -> None:
        if (round + 1) % 10 == 0 or round < 10:
            right = trainings._scores(weights, trainings.tested[None, None])[1].argmax(-1) == trainings.truth
            path.append((round + 1, 100.0 * right.mean(), *measured(trainings, weights, honest)))

    trainings = Trainings(options.data, [ATTACKS["none"]], seeds, options)
    trainings.run(None, watch)
    bound = heterogeneity_bound(options.n, options.f, G=float(np.sqrt(path[-1][3]))).squared_gradient
    print(f"omniscient: {shown(path[-1])}; the bound is {bound:.3g}")
    for round, accuracy, square, spread in path:
        own = heterogeneity_bound(options.n, options.f, G=float(np.sqrt(spread))).squared_gradient
        if square <= own:
            print(f"omniscient is first below its bound in round {round}: {accuracy:.1f}, {square:.3g} <= {own:.3g}")
            break
    for name in options.attacks.split(","):
        path.clear()
        trainings = Trainings(options.data, [ATTACKS[name]], seeds, options)
        trainings.run(recipes(options.f, trainings.d)["recommended"], watch)
        print(f"recommended under {name}: {shown(path[-1])}", flush=True)


if __name__ == "__main__":
    main()
