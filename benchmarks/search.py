"""Which search `BestResponse` should use: its evolution strategy against CMA-ES, at equal evaluations.

    pip install cmaes
    python -m benchmarks.search

Both have the same starts and the same number of candidates, on 12 inputs for each of three pools.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import mixtailor as mt
from mixtailor.attacks import BestResponse, best_response

F, N, D = 2, 12, 200
POOLS: dict[str, mt.MixTailor] = {
    "default_pool": mt.MixTailor(mt.default_pool(F)),
    "default_pool(mixed=True)": mt.MixTailor(mt.default_pool(F, mixed=True)),
    "Krum, comed, geometric median": mt.MixTailor([mt.Krum(F), mt.Comed(), mt.GeometricMedian()]),
}


def adapted(sigma: float) -> Callable[..., Any]:
    """A search with the interface of `evolve` that asks CMA-ES, begun again at its best where it has converged."""
    from cmaes import CMA

    def search(value: Callable[[Any], float], start: Any, *, step: float, budget: int, rng: Any) -> tuple[Any, float]:
        best, least, left = start, value(start), budget - 1
        while left > 0:
            strategy = CMA(mean=best.astype(float), sigma=sigma, seed=int(rng.integers(1 << 30)))
            while left > 0 and not strategy.should_stop():
                told = []
                for _ in range(min(strategy.population_size, left)):
                    child = strategy.ask()
                    told.append((child, value(child)))
                    if told[-1][1] < least:
                        best, least = told[-1]
                left -= len(told)
                if len(told) == strategy.population_size:
                    strategy.tell(told)
        return best, least

    return search


def rows(seed: int, mean: float) -> Any:
    """Honest rows whose coordinates differ in their spread."""
    random = np.random.default_rng(seed)
    return mean + random.uniform(0.2, 2.0, size=D) * random.normal(size=(N - F, D))


def main() -> None:
    """Print the mean payoff that each search reached, lower is better, and how often it was the best."""
    ours = best_response.evolve
    searches = {"evolve": ours, "CMA-ES, 0.1": adapted(0.1), "CMA-ES, 0.3": adapted(0.3)}
    print(f"{'pool':32}" + "".join(f"{name:>14}" for name in (*searches, "best start")))
    for name, pool in POOLS.items():
        found = []
        for seed, mean in [(seed, mean) for seed in range(4) for mean in (0.1, 0.3, 1.0)]:
            values = []
            for search in searches.values():
                best_response.evolve = search  # type: ignore[assignment]  # the comparison is what this file is for
                facts = BestResponse(pool).craft(rows(seed, mean), F, rng=seed).facts
                values.append(facts["value"])
            found.append([*values, facts["start_value"]])
        best_response.evolve = ours
        wins = np.bincount(np.argmin(np.array(found)[:, :-1], axis=1), minlength=len(searches))
        means = np.mean(found, axis=0)
        cells = [f"{value:.4f} ({count})" for value, count in zip(means, wins, strict=False)]
        print(f"{name:32}" + "".join(f"{cell:>14}" for cell in cells) + f"{means[-1]:14.4f}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
