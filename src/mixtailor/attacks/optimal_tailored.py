"""The optimal tailored attack: the longest result in the opposite direction."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from mixtailor._checks import check_count, check_positive, refuse
from mixtailor._types import Floats
from mixtailor.attacks._columnwise import box_of, order_weights, row_for
from mixtailor.attacks._evolution import Record, evolve
from mixtailor.attacks._formulas import flat
from mixtailor.attacks._frame import frame_of
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.knowledge import Sees
from mixtailor.attacks.trials import Outcome, Trials, check_target
from mixtailor.rules import Rule
from mixtailor.updates import Combination, Point, Updates

__all__ = ["Form", "OptimalTailored"]

Form = Literal["equal", "separate"]

_NO_DIRECTION = "{!r} needs a result without attack that is not zero: there is no opposite direction."
_LEAST = 1e-3  # the smallest lambda that is tried
_COMPANIONS = (0.5, 1.5)  # where on the ray the other updates are, times the size of the first
_AROUND = 3.0  # how far from the best lambda of equal updates they are tried, as a factor
_STEP = 0.1  # of the first moves, in units of the honest updates' distance to their mean


@dataclass(frozen=True)
class OptimalTailored(Attack):
    r"""The updates that move the target's result farthest in the direction opposite to its result without an attack.

    .. math:: \max \lambda \quad \text{subject to} \quad
        R(b_1, \ldots, b_f, x_{f+1}, \ldots, x_n) = -\lambda g, \qquad g = R(x_1, \ldots, x_n)

    Comed and the trimmed mean are solved: f equal values reach everything between the smallest and the largest result
    of a coordinate, which bounds lambda in closed form, and the update is found by inverting a piecewise linear
    function. For other rules it is a search: two lines with equal updates, :math:`b = -t g`, which a rule that selects
    may choose, and :math:`b = -(t n g + \sum_i x_i) / f`, which an average follows. With separate updates, one update
    is then tried on the first line with the others at 0.5 or 1.5 times its size, and each moves by itself in the span
    of the leading principal directions and of g. The direction counts as reached within `tolerance`. Where nothing
    reaches it, the updates are those whose result comes nearest to it, and `feasible`
    is false. Against comed and the trimmed mean, they are exactly these if some result is less than a right angle off
    the direction, and nearly these otherwise.

    Parameters
    ----------
    target : Rule
        The rule that the server uses; of a MixTailor, one rule is drawn by the attacker.
    rows : {"equal", "separate"}
        All Byzantine updates equal (the paper's suboptimal attack), or each different.
    k : int, optional
        How many updates are known, own ones included; the others are assumed to equal the mean of those. All by
        default.
    model : update, optional
        w0, the model that the server sent: updates are models, and the result is to be ``w0 - lambda (w - w0)``.
    budget : int
        How many candidates to try.
    tolerance : float
        How far from the opposite direction a result may be, in radians.
    highest : float
        The largest lambda that is searched for; averages have no largest lambda.
    directions : int
        How many principal directions separate updates may use.

    Examples
    --------
    >>> from mixtailor import Krum
    >>> honest = 0.3 + np.random.default_rng(0).normal(size=(12, 100))
    >>> made = OptimalTailored(Krum(f=2)).craft(honest[:10], f=2, own=honest[10:], rng=0)
    >>> made.facts["feasible"], round(made.facts["angle"], 6), round(made.facts["lambda"], 2)
    (True, 3.141593, 1.03)

    Notes
    -----
    `craft` reports lambda, the angle between the result and g, whether it is feasible, and the number of rule
    evaluations, as computed by the attacker: with partial knowledge, the server has other updates. ``k=k`` is
    ``Sees(k) |``. g is the result on all n correct updates; without `own` it is that of the honest updates, and a
    simulation computes them for this attack. Gradients or models, full or partial knowledge, equal or separate updates
    are the eight forms of the paper's appendix.

    Equal updates are not always the best against Krum: where an honest update that competes with them has a Byzantine
    update among its neighbours, a second Byzantine update that steps away from it raises its score to first order, at a
    cost of second order.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022, appendix A.1.
    .. [2] Fang, Cao, Jia, Gong, "Local Model Poisoning Attacks to Byzantine-Robust Federated Learning", USENIX
       Security 2020.
    """

    target: Rule
    rows: Form = field(default="equal", kw_only=True)
    k: int | None = field(default=None, kw_only=True)
    model: Any = field(default=None, kw_only=True, compare=False)
    budget: int = field(default=100, kw_only=True)
    tolerance: float = field(default=1e-3, kw_only=True)
    highest: float = field(default=1e4, kw_only=True)
    directions: int = field(default=6, kw_only=True)

    needs: ClassVar[str] = "the honest updates, or some of them, and the server's rule"

    def __post_init__(self) -> None:
        if not isinstance(self.target, Rule):
            raise TypeError(f"OptimalTailored needs target= as a rule or a MixTailor and got {self.target!r}.")
        if self.rows not in get_args(Form):
            refuse(f"OptimalTailored needs rows='equal' or 'separate' and got {self.rows!r}.")
        if self.k is not None:
            check_count("OptimalTailored", "k", self.k)
        check_count("OptimalTailored", "budget", self.budget, 20)
        check_count("OptimalTailored", "directions", self.directions, 0)
        check_positive("OptimalTailored", "tolerance", self.tolerance)
        check_positive("OptimalTailored", "highest", self.highest)

    def needs_own(self) -> bool:
        return True

    def points(self, scene: Scene) -> Sequence[Point]:
        target = check_target(self, self.target, scene.n)
        seen = scene if self.k is None else Sees(self.k).seen(scene, self)
        trials = Trials(target, seen)
        rule = trials.drawn()
        weights = order_weights(rule, seen.n)
        return _Search(self, seen, trials, rule).run() if weights is None else self._solved(seen, trials, rule, weights)

    def _solved(self, scene: Scene, trials: Trials, rule: Rule, weights: Floats) -> Sequence[Point]:
        """The rows against a columnwise rule: equal ones, since separate ones reach nothing else."""
        honest, host = scene.honest, scene.honest.space.host
        origin = np.zeros(honest.d) if self.model is None else host(honest.space.vector(scene.flat(self.model)))
        towards = host(flat(honest, trials.unattacked(rule))) - origin
        square = float(towards @ towards)
        if square == 0.0:
            refuse(_NO_DIRECTION.format(self))
        box = box_of(honest, weights)
        size = box.largest(towards, origin, self.highest)
        near = self.highest, self.tolerance
        wanted = box.nearest(towards, origin, *near) if size is None else origin - size * towards
        row = honest.given(honest.space.vector(row_for(honest, weights, wanted)))
        result = host(flat(honest, trials.result([row] * scene.f, rule))) - origin
        outcome = Outcome(float(result @ towards), float(np.linalg.norm(result)), math.sqrt(square))
        feasible = math.pi - outcome.angle <= self.tolerance and outcome.inner < 0.0
        facts: dict[str, Any] = {"lambda": -outcome.inner / square, "angle": outcome.angle, "feasible": feasible}
        if self.rows == "separate":
            facts["equal_lambda"] = facts["lambda"] if feasible else None
        facts.update(evaluations=trials.evaluations, rule=rule, errors=((trials.evaluations, math.pi - outcome.angle),))
        return [row.with_facts(**facts)] * scene.f

    def __repr__(self) -> str:
        shown = [repr(self.target)]
        shown += [f"rows={self.rows!r}"] if self.rows != "equal" else []
        shown += [] if self.k is None else [f"k={self.k}"]
        shown += [] if self.model is None else ["model=..."]
        return f"OptimalTailored({', '.join(shown)})"


class _Search:
    """One search for one rule in one round."""

    def __init__(self, attack: OptimalTailored, scene: Scene, trials: Trials, rule: Rule) -> None:
        self.attack, self.scene, self.trials, self.rule = attack, scene, trials, rule
        honest = scene.honest
        unattacked = honest.given(flat(honest, trials.unattacked(rule)))
        began = [] if attack.model is None else [honest.given(scene.flat(attack.model))]
        self.frame = frame_of(scene, attack.directions, [unattacked, *began], spread=False)
        n = self.frame.updates.n
        eye = np.eye(n)
        self.origin: Floats = np.zeros(n) if attack.model is None else eye[n - 1]
        self.towards: Floats = (eye[n - 1] if attack.model is None else eye[n - 2]) - self.origin
        self.record = Record()
        self.errors: list[tuple[int, float]] = []

    def run(self) -> list[Combination]:
        attack, f = self.attack, self.scene.f
        size = _outcome(self.frame.updates, self._point(self.towards), None, self._point(self.towards)).length
        if size == 0.0:
            refuse(_NO_DIRECTION.format(attack))
        budget = attack.budget if attack.rows == "equal" else attack.budget // 2
        for line in (self._ray, self._compensating):
            self._along(lambda t, line=line: np.tile(line(t), (f, 1)), budget // 2)  # type: ignore[misc]  # bound in the loop
        equal = self._facts()
        if attack.rows == "separate":
            near = max(equal["lambda"], _LEAST) if equal["feasible"] else 1.0
            for factor in _COMPANIONS if f > 1 else ():
                scale = np.append(1.0, np.full(f - 1, factor))[:, None]
                ends = near / _AROUND, min(near * _AROUND, attack.highest)
                self._along(
                    lambda t, scale=scale: self.origin - t * scale * self.towards,  # type: ignore[misc]  # bound in the loop
                    attack.budget // 8,
                    ends,
                )
            self._apart(attack.budget - self.record.tried)
        facts = self._facts()
        if attack.rows == "separate":
            facts["equal_lambda"] = equal["lambda"] if equal["feasible"] else None
        facts.update(evaluations=self.trials.evaluations, rule=self.rule, errors=tuple(self.errors))
        assert self.record.best is not None
        return self.frame.points(self.record.best, **facts)

    def _ray(self, t: float) -> Floats:
        """-t g: a rule that selects one of the rows returns it."""
        return self.origin - t * self.towards

    def _compensating(self, t: float) -> Floats:
        """What brings the mean of all rows to -t g."""
        n, f, m = self.scene.n, self.scene.f, self.scene.honest.n
        return (n * self._ray(t) - m * self.frame.centre) / f

    def _point(self, weights: Floats) -> Combination:
        return self.frame.updates.combine(weights)

    def value(self, rows: Floats) -> float:
        """The angle that is missing where it is more than the tolerance, else minus lambda: less is better."""
        result = self.trials.result(self.frame.points(rows), self.rule)
        outcome = _outcome(self.frame.updates, result, self._began(), self._point(self.towards))
        error = math.pi - outcome.angle
        if not self.errors or error < self.errors[-1][1]:
            self.errors.append((self.trials.evaluations, error))
        length = -outcome.inner / outcome.reference**2
        return self.record.note(rows, -length if error <= self.attack.tolerance and length > 0.0 else 1.0 + error)

    def _began(self) -> Combination | None:
        return self._point(self.origin) if self.origin.any() else None

    def _along(self, rows: Callable[[float], Floats], budget: int, ends: tuple[float, float] | None = None) -> None:
        """A grid of sizes, and halving between the best of them and the next larger one."""
        low, high = ends or (_LEAST, self.attack.highest)
        # Between given ends the grid is as small as the budget.
        grid = np.geomspace(low, high, max(8, budget // 2) if ends is None else max(2, budget // 2))
        found = [self.value(rows(float(t))) for t in grid]
        best = int(np.argmin(found))
        low, least = float(grid[best]), found[best]
        high = float(grid[min(best + 1, len(grid) - 1)])
        for _ in range(max(budget - len(grid), 0)):
            if high <= low * (1 + 1e-9):
                break
            middle = math.sqrt(low * high)
            here = self.value(rows(middle))
            low, least, high = (middle, here, high) if here < least else (low, least, middle)

    def _apart(self, budget: int) -> None:
        """Rows move by themselves: first all but one, which stays on its line, then all."""
        for first in (1, 0):
            base = self.record.best
            assert base is not None
            free = self.scene.f - first
            directions = np.vstack([self.frame.directions, self._unit()])
            share = budget // 2
            if free and share > 1:
                moved = partial(_moved, base, first, self.origin, self.frame.unit * directions)
                evolve(
                    lambda theta, moved=moved: self.value(moved(theta)),  # type: ignore[misc]  # bound in the loop
                    np.zeros(1 + free * len(directions)),
                    step=_STEP,
                    budget=share,
                    rng=self.scene.random,
                )

    def _unit(self) -> Floats:
        length = math.sqrt(float(self.frame.updates.inner(self._point(self.towards))[0, 0]))
        return self.towards / length

    def _facts(self) -> dict[str, Any]:
        value = self.record.value
        feasible = value < 0.0
        assert self.record.best is not None
        result = self.trials.result(self.frame.points(self.record.best), self.rule)
        self.trials.evaluations -= 1  # the search has counted it
        outcome = _outcome(self.frame.updates, result, self._began(), self._point(self.towards))
        return {"lambda": -outcome.inner / outcome.reference**2, "angle": outcome.angle, "feasible": feasible}


def _moved(base: Floats, first: int, origin: Floats, directions: Floats, theta: Floats) -> Floats:
    """All rows stretched about the origin, and those from `first` on moved, each by itself."""
    rows = origin + math.exp(min(max(float(theta[0]), -20.0), 20.0)) * (base - origin)
    rows[first:] += theta[1:].reshape(len(base) - first, len(directions)) @ directions
    return rows


def _outcome(updates: Updates, result: Point, origin: Combination | None, towards: Combination) -> Outcome:
    """How ``result - origin`` stands to a direction."""
    moved: Point = result if origin is None else _difference(updates, result, origin)
    inner = moved.updates.inner(moved, towards)
    return Outcome(float(inner[0, 1]), math.sqrt(max(inner[0, 0], 0.0)), math.sqrt(max(inner[1, 1], 0.0)))


def _difference(updates: Updates, first: Point, second: Combination) -> Point:
    if isinstance(first, Combination) and first.updates.basis is second.updates.basis:
        apart: Combination = first.updates.basis_difference(first.weights, second)
        return apart
    return updates.formula(lambda _start, _stop, a, b: a - b, first, second)
