"""RobustTailor beside the uniform draw from the same pool, in training.

    python -m benchmarks.robust_tailor

A perceptron on the digits, 12 workers of which 2 are Byzantine, batches of 16, two seeds. The server holds a tenth of
the examples, which no worker has, and simulates each round on as many batches of them as there are workers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import mixtailor as mt
from mixtailor.attacks import Adaptive, Attack, BestResponse, Tailored
from mixtailor.theory import RobustTailor

N, F, BATCH, ROUNDS, RATE = 12, 2, 16, 60, 0.2
POOL = [mt.Krum(F), mt.Comed(), mt.GeometricMedian(), mt.Bulyan(F)]
SEEDS = (0, 1)

Server = Callable[[Any, int], Any]  # from the public rows and the round to the rule


def attacks() -> dict[str, Attack | None]:
    """Those that know nothing, and two that try the pool with equal probabilities."""
    return {
        "none": None,
        "Tailored(0.1)": Tailored(0.1),
        "Tailored(10)": Tailored(10.0),
        "Adaptive, pool": Adaptive(mt.MixTailor(POOL), against="pool"),
        "BestResponse": BestResponse(mt.MixTailor(POOL), budget=24),
    }


def servers() -> dict[str, Server]:
    """Each with draws that a seed repeats."""
    uniform = mt.MixTailor(POOL, entropy=mt.SeededEntropy(0))
    tailor = RobustTailor(POOL, F, entropy=mt.SeededEntropy(0))
    return {
        "uniform": lambda _public, _round: uniform,
        "RobustTailor": lambda public, round: tailor.for_round(public, rng=round),
        "omniscient": lambda _public, _round: None,
    }


def accuracy(server: Server, attack: Attack | None, seed: int) -> float:
    """The test accuracy after the last round."""
    from mixtailor.simulation import Layout, WorkerGradients, build, digits
    from mixtailor.simulation.evaluation import Evaluation

    data = digits()
    model = build("mlp", data, seed=seed)
    gradients, evaluate = WorkerGradients(model), Evaluation(model, data)
    weights = Layout.of(model).flatten(model).clone()
    random = np.random.default_rng(seed)
    order = random.permutation(len(data))
    public, private = order[: len(order) // 10], order[len(order) // 10 :]
    for round in range(ROUNDS):
        matrix, _ = gradients(weights, *data.train(random.choice(private, size=(N, BATCH))), seed=round)
        rows, honest = matrix.clone(), matrix[: N - F].clone()
        if attack is not None:
            rows[N - F :] = attack(honest, F, own=rows[N - F :], rng=round)
        simulated, _ = gradients(weights, *data.train(random.choice(public, size=(N, BATCH))), seed=round)
        rule = server(simulated.clone(), round)
        weights = weights - RATE * (honest.mean(0) if rule is None else rule(rows))
    return evaluate(weights)[0]


def main() -> None:
    """Print the accuracy in per cent, the mean over the seeds."""
    import torch

    torch.set_num_threads(1)  # on a busy machine, threads that wait for each other take most of the time
    names = list(servers())
    print(f"{'attack':16}" + "".join(f"{name:>14}" for name in names))
    for label, attack in attacks().items():
        found = [np.mean([accuracy(servers()[name], attack, seed) for seed in SEEDS]) for name in names]
        print(f"{label:16}" + "".join(f"{100 * value:14.1f}" for value in found), flush=True)


if __name__ == "__main__":
    main()
