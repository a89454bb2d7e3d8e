"""The pool attack: one set of rows against every rule of a pool at once."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor._types import Floats
from mixtailor.attacks._evolution import Record, evolve
from mixtailor.attacks._frame import Frame
from mixtailor.attacks._search_starts import SIMPLE, moved, started
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.line_search import golden
from mixtailor.attacks.trials import Trials, check_target
from mixtailor.rules import Rule
from mixtailor.updates import Combination, Point

__all__ = ["PoolAttack", "Problem"]

Problem = Literal["P1", "P2", "P3"]

_STEP = 0.1
_SPARE = 1.001  # so that rounding to the rows' own type leaves the distance above eps
_LOW, _HIGH = 1e-4, 1e4  # of lambda's size, times the number of rows
_NEAR = 0.1  # of the sizes that are looked at closely; their largest is its inverse
_TURNS = 4  # places on the line that are looked at more closely
_LINE = "P3"


@dataclass(frozen=True, eq=False)
class _Apart:
    """How updates that a filter would reject are moved apart: along a direction, about their middle or from the first.

    From the first, one update stays where it does harm, and the others only have to be somewhere else.
    """

    unit: Floats
    centred: bool


@dataclass(frozen=True)
class PoolAttack(Attack):
    r"""Updates that minimise the best result of all rules of a pool, found by a search.

    .. math:: P_1: \; \min_{b_1, \ldots, b_f} \max_m \; \langle U_m, \tfrac1n \sum_{i=1}^n V_i \rangle,
        \quad U_m = R_m(b_1, \ldots, b_f, V_{f+1}, \ldots, V_n)
        \quad \text{subject to} \; \lVert b_i - b_j \rVert \ge \epsilon

    Below zero, every rule of the pool ascends: no draw helps. The distance between the updates is what a filter against
    similar updates requires. P2 is the same problem with the maximum as a variable of its own. P3 leaves the filter out
    and searches one line, :math:`b_j = -\lambda \sum_{i=1}^n V_i`, with lambda of either sign.

    Parameters
    ----------
    target : Rule
        The MixTailor, or the rule, that the server uses. Probabilities do not matter, as long as they are not zero.
    problem : {"P1", "P2", "P3"}
        Which problem of the paper's appendix.
    eps : float
        The least distance between two Byzantine updates, for P1 and P2; 0 for no filter.
    budget : int
        How many candidates to try on P3's line. P1 and P2 then try as many others, starts included.
    starts : sequence of Attack, optional
        Where to start besides P3's optimum, for P1 and P2; their updates are moved apart first if the filter requires
        it: about their middle along one direction, or away from the first of them, which stays where it does harm.
    directions, groups : int
        As in `BestResponse`; with a filter every update moves by itself.

    Examples
    --------
    Krum alone is broken; with the median beside it, the pool is not, at this state.

    >>> from mixtailor import Comed, Krum, MixTailor
    >>> honest = 0.5 + np.random.default_rng(0).normal(size=(10, 100))
    >>> pools = [MixTailor([Krum(f=2)]), MixTailor([Krum(f=2), Comed()])]
    >>> [PoolAttack(pool, budget=60).craft(honest, f=2, rng=0).facts["broken"] for pool in pools]
    [True, False]

    Notes
    -----
    `craft` reports the value, whether it is below zero (`broken`), whether the filter's distances are kept
    (`feasible`), the rule that decides, the value of each rule, the best start with its value, and the number of rule
    evaluations. The value is never above that of a start, made feasible; without a filter, P1 with the same budget is
    never above P3, whose updates it can send. That no negative value was found proves nothing: the problem is not
    convex. :math:`V_i` of the Byzantine workers are their correct updates, `own`; without them, sums and means are
    those of the honest updates.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022, appendix A.4.
    """

    target: Rule
    problem: Problem = field(default="P1", kw_only=True)
    eps: float = field(default=0.0, kw_only=True)
    budget: int = field(default=200, kw_only=True)
    starts: tuple[Attack, ...] | None = field(default=None, kw_only=True)
    directions: int = field(default=3, kw_only=True)
    groups: int = field(default=2, kw_only=True)

    needs: ClassVar[str] = "the honest updates and the server's rules"

    def __post_init__(self) -> None:
        if not isinstance(self.target, Rule):
            raise TypeError(f"PoolAttack needs target= as a rule or a MixTailor and got {self.target!r}.")
        if self.problem not in get_args(Problem):
            refuse(f"PoolAttack needs problem='P1', 'P2' or 'P3' and got {self.problem!r}.")
        if isinstance(self.eps, bool) or not isinstance(self.eps, (int, float)) or not 0.0 <= self.eps < float("inf"):
            refuse(f"PoolAttack needs eps >= 0, the least distance between two Byzantine rows, and got {self.eps!r}.")
        if self.problem == "P3" and self.eps > 0.0:
            refuse("PoolAttack needs eps = 0 for P3, whose rows are all equal. Use P1 to evade a similarity filter.")
        check_count("PoolAttack", "budget", self.budget, 8)
        check_count("PoolAttack", "directions", self.directions, 0)
        check_count("PoolAttack", "groups", self.groups)
        if self.starts is not None:
            if not self.starts or not all(isinstance(start, Attack) for start in self.starts):
                refuse(f"PoolAttack needs starts as a sequence of at least one attack and got {self.starts!r}.")
            object.__setattr__(self, "starts", tuple(self.starts))

    def points(self, scene: Scene) -> Sequence[Point]:
        trials = Trials(check_target(self, self.target, scene.n), scene, scene.everyone().mean())
        attacks = SIMPLE if self.starts is None else self.starts
        frame, starts, reference = started(scene, attacks, self.directions, trials.reference)
        assert reference is not None
        trials.reference = reference
        record = Record()

        products: dict[Rule, float] = {}

        def value(rows: Floats) -> float:
            found = [outcome.inner for outcome in trials.outcomes(frame.points(rows))]
            if max(found) < record.value:
                products.update(zip(trials.rules, found, strict=True))
            return record.note(rows, max(found))

        facts: dict[str, object] = {"problem": self.problem}
        ways = self._ways(frame, scene.f)
        way, left = ways[0], self.budget
        if len(ways) > 1:
            each = left // (2 * len(ways))
            tried = [
                self._least_on_line(partial(self._valued, value, frame, one), reference, scene, each) for one in ways
            ]
            way, left = ways[int(np.argmin(tried))], left - record.tried
        line = self._line(partial(self._valued, value, frame, way), reference, scene, left)
        if self.problem == "P3":
            facts["lambda"] = line[0]
        else:
            found = {_LINE: min(line[1], record.value)}
            for one in dict.fromkeys((ways[0], way)):
                for start in starts[: 2 * self.budget - record.tried]:
                    here = self._valued(value, frame, one, start.rows)
                    found[start.name] = min(here, found.get(start.name, here))
            best = min(found, key=lambda name: found[name])
            facts.update(start=best, start_value=found[best], starts=found)
            self._rows(partial(self._valued, value, frame, way), frame, record, scene)
            facts["improved"] = record.value < found[best]
        assert record.best is not None
        facts.update(
            value=record.value,
            broken=record.value < 0.0,
            feasible=self._least(frame, record.best) >= self.eps,
            rule=max(products, key=lambda rule: products[rule]),
            values={repr(rule): found for rule, found in products.items()},
            history=tuple(record.history),
            candidates=record.tried,
            evaluations=trials.evaluations,
        )
        return frame.points(record.best, **facts)

    def _ways(self, frame: Frame, f: int) -> list[_Apart]:
        """The ways to move updates apart that are tried; one if there is nothing to move."""
        # The last is a principal direction where there is one: it says little about the mean.
        last, names = frame.directions[-1], frame.names
        ways = [_Apart(last, True)]
        if self.eps > 0.0 and f > 1:
            ways.append(_Apart(last, False))
            if "mean" in names:
                mean = frame.directions[names.index("mean")]
                ways += [_Apart(-mean, False), _Apart(mean, False)]
        return ways

    def _valued(self, value: Callable[[Floats], float], frame: Frame, way: _Apart, rows: Floats) -> float:
        return value(self._feasible(frame, rows, way))

    @staticmethod
    def _least_on_line(value: Callable[[Floats], float], reference: Combination, scene: Scene, budget: int) -> float:
        """The least value of a few sizes: more of them against the mean than along it."""
        against = budget - budget // 3
        sizes = [*np.geomspace(_NEAR, 1.0 / _NEAR, against), *-np.geomspace(_NEAR, 1.0, budget // 3)]
        return min(value(np.tile(-size * reference.weights, (scene.f, 1))) for size in sizes)

    def _line(
        self, value: Callable[[Floats], float], reference: Combination, scene: Scene, budget: int
    ) -> tuple[float, float]:
        """The best lambda of P3 and its value; lambda times the sum of the rows is a size times their mean."""
        tried: dict[float, float] = {}

        def at(size: float) -> float:
            tried[size] = value(np.tile(-size * reference.weights, (scene.f, 1)))
            return tried[size]

        # Rules that select change their minds within a tenth of a size near the mean's: most candidates are there.
        # Along the mean, they are shorter than it: a rule that selects one of them descends less. The rest are far from
        # it, and where the values turn.
        eighth, sixteenth = max(2, budget // 8), max(1, budget // 16)
        near = np.geomspace(_NEAR, 1.0 / _NEAR, 3 * budget // 8)
        shorter = np.geomspace(_NEAR, 1.0, eighth)
        turns = []
        for sign, grid in (
            (1.0, np.union1d(near, np.geomspace(_LOW, _HIGH, eighth))),
            (-1.0, np.union1d(shorter, np.geomspace(_LOW, _HIGH, sixteenth))),
        ):
            found = [at(sign * float(size)) for size in grid]
            padded = [math.inf, *found, math.inf]
            for place, here in enumerate(found):
                if here <= padded[place] and here < padded[place + 2]:
                    bracket = (float(grid[k]) for k in (max(place - 1, 0), place, min(place + 1, len(grid) - 1)))
                    turns.append((here, sign, *bracket))
        chosen = sorted(turns)[:_TURNS]
        for number, (here, sign, low, size, high) in enumerate(chosen):
            share = (budget - len(tried)) // (len(chosen) - number)
            golden(lambda t, sign=sign: at(sign * t), low, (size, here), high, share)  # type: ignore[misc]  # bound in the loop
        best = min(tried, key=lambda size: tried[size])
        return best / (scene.n if scene.own is not None else scene.honest.n), tried[best]

    def _rows(self, value: Any, frame: Frame, record: Record, scene: Scene) -> None:
        left = 2 * self.budget - record.tried
        # Under a filter no two rows are equal.
        stages = [scene.f] if self.eps > 0.0 else sorted({1, min(self.groups, scene.f)})
        for number, groups in enumerate(stages):
            share = left // (len(stages) - number)
            left -= share
            base = record.best
            assert base is not None
            if share > 1:
                change = partial(moved, frame, base, np.arange(scene.f) % groups)
                evolve(
                    lambda theta, change=change: value(change(theta)),  # type: ignore[misc]  # bound in the loop
                    np.zeros(groups * (len(frame.directions) + 1)),
                    step=_STEP,
                    budget=share,
                    rng=scene.random,
                )

    def _least(self, frame: Frame, rows: Floats) -> float:
        between = frame.distances(rows)[np.triu_indices(len(rows), 1)]
        return float(between.min()) if len(between) else float("inf")

    def _feasible(self, frame: Frame, rows: Floats, way: _Apart) -> Floats:
        """The rows, moved apart along one direction where two of them are nearer than the filter allows."""
        if self._least(frame, rows) >= _SPARE * self.eps:
            return rows
        unit = way.unit
        points = [frame.updates.combine(row) for row in [*rows, unit]]
        places = frame.updates.inner(*points)[:-1, -1]
        order = np.argsort(places, kind="stable")
        wanted = places.copy()
        for before, after in itertools.pairwise(order):
            # Beyond the distance itself, the rounding of places far from the origin.
            apart = _SPARE * self.eps + 1e-9 * float(np.abs(places).max())
            wanted[after] = max(wanted[after], wanted[before] + apart)
        shift = wanted - places
        return np.asarray(rows + (shift - (shift.mean() if way.centred else 0.0))[:, None] * unit)
