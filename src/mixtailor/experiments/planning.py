"""Attack schedules found by an optimiser: each candidate is judged by a short training run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.attacks._evolution import Record, evolve

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from mixtailor._types import Floats
    from mixtailor.experiments.config import RunConfig

__all__ = ["PLANS", "FoundPlan", "Plan", "search_schedule", "trainer"]

_STEP = 0.3
_SLOWEST = 0.01  # turns per round, below which a plan does not flip
_LATEST = 0.95  # share of the rounds after which an attack would hardly show


@dataclass(frozen=True)
class Plan:
    """When and how hard to push: what `search_schedule` searches over.

    Parameters
    ----------
    z, along, disguise : float
        As in `mixtailor.attacks.Drift`.
    start : float
        The share of the rounds in which the workers send the honest mean.
    flip : int, optional
        Every so many rounds the push changes sides.
    split : bool
        Whether each worker pushes its own share of the coordinates only.

    Examples
    --------
    >>> Plan(z=0.5, start=0.25, flip=8).table()["attack"]
    {'name': 'drift', 'z': 0.5, 'along': 0.0, 'disguise': 0.0}
    """

    z: float = 1.0
    along: float = 0.0
    disguise: float = 0.0
    start: float = 0.0
    flip: int | None = None
    split: bool = False

    def table(self) -> dict[str, Any]:
        """The attack as an experiment's file has it: it can be run again, and against another rule."""
        push: dict[str, Any] = {"name": "drift", "z": self.z, "along": self.along, "disguise": self.disguise}
        inner = {"name": "split", "attack": push} if self.split else push
        table: dict[str, Any] = {"name": "schedule", "attack": inner, "start": self.start}
        return table if self.flip is None else {**table, "flip": self.flip}

    def vector(self) -> Floats:
        """The plan as numbers of about one size, for a search."""
        turns = 0.0 if self.flip is None else 1.0 / self.flip
        return np.array([self.z, self.along, self.disguise, self.start, turns, 1.0 if self.split else 0.0])

    @classmethod
    def of(cls, vector: Floats) -> Plan:
        """The plan nearest to a vector: a start is cut off at both ends, and few turns are none."""
        z, along, disguise, start, turns, split = (round(float(number), 4) for number in vector)
        flip = None if turns < _SLOWEST else max(1, round(1.0 / turns))
        return cls(z, along, disguise, min(max(start, 0.0), _LATEST), flip, split > 0.5)


# Patient, loud, late, alternating, disguised and divided.
PLANS = (
    Plan(1.0),
    Plan(0.5),
    Plan(0.0, along=1.0),
    Plan(2.0, start=0.7),
    Plan(1.0, flip=10),
    Plan(1.0, disguise=1.0),
    Plan(2.0, split=True),
)


@dataclass(frozen=True)
class FoundPlan:
    """The result of a search.

    Attributes
    ----------
    plan : Plan
        The plan that was found.
    accuracy : float
        What training reached under it, the mean over the seeds.
    start_accuracy : float
        The least that a start left.
    runs : int
        How many runs it took.
    history : tuple of (int, float)
        The number of plans at each improvement, and the accuracy from there on.
    """

    plan: Plan
    accuracy: float
    start_accuracy: float
    runs: int
    history: tuple[tuple[int, float], ...] = field(repr=False)


def search_schedule(
    train: Callable[[Plan, int], float],
    *,
    budget: int = 40,
    seeds: Sequence[int] = (0,),
    starts: Sequence[Plan] = PLANS,
    rng: np.random.Generator | int | None = None,
) -> FoundPlan:
    """The plan under which training ends worst, as far as a search finds it.

    The starts are tried first, then an evolution strategy from the best of them. Plans found against another server
    are good starts: a transferred attack may beat a fresh search.

    Parameters
    ----------
    train : callable
        ``train(plan, seed)`` is the accuracy that training reaches; `trainer` makes one of a configuration.
    budget : int
        How many plans to try, starts included; each takes one run per seed.
    seeds : sequence of int
        The same for all plans. Judge the result on others: the search overfits to these.
    starts : sequence of Plan
        Where to start.
    rng : Generator or int, optional
        The search's randomness.

    Examples
    --------
    A server that resists everything but a push of 0.6 that starts late:

    >>> def train(plan, seed):
    ...     return abs(plan.z - 0.6) + abs(plan.start - 0.5)
    >>> found = search_schedule(train, budget=300, rng=0)
    >>> found.accuracy < 0.1 < found.start_accuracy
    True
    """
    check_count("search_schedule", "budget", budget)
    if not seeds or not starts:
        refuse("search_schedule needs at least one seed and one start.")
    record, random = Record(), np.random.default_rng(rng)
    known: dict[Plan, float] = {}

    def value(vector: Floats) -> float:
        plan = Plan.of(vector)
        if plan not in known:
            found = fmean(train(plan, seed) for seed in seeds)
            known[plan] = found if math.isfinite(found) else 0.0  # training that came apart has reached nothing
        return record.note(vector, known[plan])

    for start in starts[:budget]:
        value(start.vector())
    start_accuracy, left = record.value, budget - record.tried
    assert record.best is not None
    if left > 1:
        evolve(value, record.best, step=_STEP, budget=left, rng=random)
    return FoundPlan(Plan.of(record.best), record.value, start_accuracy, len(known) * len(seeds), tuple(record.history))


def trainer(
    config: RunConfig, *, data: str | os.PathLike[str] | None = None, last: int = 5
) -> Callable[[Plan, int], float]:
    """How a configuration's training ends under a plan, for `search_schedule`.

    Parameters
    ----------
    config : RunConfig
        Everything but attack and seed.
    data : path, optional
        The folder of data files.
    last : int
        The accuracy is the mean of so many last evaluations.

    Examples
    --------
    >>> from mixtailor.experiments import RunConfig
    >>> table = {"data": "synthetic", "model": "logistic", "rule": "comed", "rounds": 10, "evaluate_every": 5}
    >>> accuracy = trainer(RunConfig.made(table))(Plan(z=1.5), 0)
    >>> 0.0 <= accuracy <= 1.0
    True
    """
    from mixtailor.experiments.building import simulation_of  # torch loads here

    def train(plan: Plan, seed: int) -> float:
        chosen = config.model_copy(update={"attack": plan.table(), "seed": seed})
        return simulation_of(chosen, data=data).run().accuracy(last)

    return train
