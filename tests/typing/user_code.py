"""What users write; it must type-check under ``mypy --strict``, and run."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import mixtailor as mt
from mixtailor.attacks import Tailored
from mixtailor.rules.part import Asks, Part, walk
from mixtailor.testing import check_rule
from mixtailor.updates import Median, Point, Updates


@dataclass(frozen=True)
class NearMedian(mt.Rule):
    f: int

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n d)"

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def asks(self) -> Asks:
        return Asks(reference="previous")

    def decide(self, updates: Updates) -> Point:
        distances = updates.distances_to(updates.columns(Median()))
        return updates.mean(np.argsort(distances)[: updates.n - self.f], scores=distances)


def midrange(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    middle: npt.NDArray[np.float64] = (rows.min(axis=0) + rows.max(axis=0)) / 2
    return middle


def pool() -> mt.MixTailor:
    chained: mt.Rule = mt.NNM(f=1) >> mt.Bucketing(size=1) >> mt.Comed()
    return mt.MixTailor([mt.Krum(f=1, p=3), chained, midrange, NearMedian(f=1)], [0.25] * 4, mt.SeededEntropy(1))


def aggregate(honest: npt.NDArray[np.float64]) -> tuple[Any, list[int], str]:
    lies = Tailored(epsilon=0.1)(honest, f=1)
    sent = np.concatenate([honest, lies])
    result: mt.Aggregation = pool().aggregate(sent, workers=["a", "b", "c", "d", "e", "f"])
    pool()(sent, reference=honest[0], honest=range(5), round=3, entropy=mt.SystemEntropy(), on_fault="skip")
    faulty: list[int] = [item.row for item in result.quarantined]
    return result.update, faulty, repr(result.rule)


def checked() -> None:
    check_rule(NearMedian(f=1), seeds=1)
    kappa: float | None = mt.make_rule("nnm >> krum", f=1).kappa(12, 1, 100)
    assert kappa is not None
    nested: list[Part] = list(walk(mt.make_rule({"name": "nnm >> bulyan", "then": "comed"}, f=1, n=12)))
    assert len(nested) == 4
