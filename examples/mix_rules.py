"""One round of robust aggregation, and what the server can tell afterwards.

Run it with: python examples/mix_rules.py
"""

import numpy as np

import mixtailor as mt
from mixtailor.attacks import Tailored

WORKERS = [f"worker-{number}" for number in range(12)]


def main() -> None:
    random = np.random.default_rng(0)
    honest = random.normal(1.0, 3.0, size=(10, 1000))
    updates = np.concatenate([honest, Tailored(epsilon=0.1)(honest, f=2)])
    direction = honest.mean(axis=0)

    for rule in (mt.Mean(), mt.Krum(f=2), mt.MixTailor(mt.default_pool(f=2))):
        result = rule.aggregate(updates, workers=WORKERS)
        kept = result.update @ direction / (direction @ direction)
        print(result)
        print(f"  {kept:.2f} of the honest step is left\n")


if __name__ == "__main__":
    main()
