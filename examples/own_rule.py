"""A rule of your own, held to the laws of the package, in a pool with others.

Run it with: python examples/own_rule.py
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import mixtailor as mt
from mixtailor.testing import check_rule
from mixtailor.updates import Median, Point, Updates


@dataclass(frozen=True)
class NearMedian(mt.Rule):
    """The mean of the n - f rows that are nearest to the coordinate-wise median."""

    f: int

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n log^2 n d)"

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def decide(self, updates: Updates) -> Point:
        distances = updates.distances_to(updates.columns(Median()))
        nearest = np.argsort(distances, kind="stable")[: updates.n - self.f]
        return updates.mean(nearest, scores=distances)


def main() -> None:
    check_rule(NearMedian(f=1))
    print("NearMedian keeps every law.")
    rows = np.array([[1.0, 2.0], [1.1, 2.0], [0.9, 2.1], [1.0, 1.9], [9e9, 0.0]])
    print(NearMedian(f=1).aggregate(rows))
    print(mt.MixTailor([NearMedian(f=1), mt.Krum(f=1), mt.Comed()])(rows).round(1))


if __name__ == "__main__":
    main()
