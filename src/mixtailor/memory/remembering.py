"""One call of a memory: a rule decides from views of the workers."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Floats
from mixtailor.intake import Arrival
from mixtailor.kernels.selection import median
from mixtailor.kernels.weighted import median_of
from mixtailor.memory.history import Recall
from mixtailor.memory.views import embedded, widest
from mixtailor.mixing import MixTailor
from mixtailor.rules._clip import clip_factors
from mixtailor.rules.base import Plan, Rule
from mixtailor.rules.bounded import Bounded
from mixtailor.rules.part import walk
from mixtailor.rules.request import Request
from mixtailor.rules.view_filter import above_noise
from mixtailor.rules.weighting import Weighting
from mixtailor.storage.layers import Matrix
from mixtailor.updates import Call, Combination, Point, Updates
from mixtailor.updates.numbers import NeedsCoordinates, Unseen, distances_of

__all__ = ["Around", "Remembering", "check_combines"]

# Above this many workers the second filter, which counts suspects, would cost more than the first.
_COUNTED = 200


@dataclass(frozen=True, repr=False)
class Around(Rule):
    """A rule that needs and tolerates what the one inside does. Abstract: `decide` is left."""

    rule: Rule

    requirement: ClassVar[str] = "what its rule needs"
    cost: ClassVar[str] = "O(n d), and its rule's on n x n numbers"

    def min_rows(self) -> int:
        return self.rule.min_rows()

    def tolerates(self, n: int) -> int:
        return self.rule.tolerates(n)

    def needs(self) -> str:
        return self.rule.needs()

    def takes_weights(self) -> bool:
        return True  # where the rule inside does, which is asked as well

    def check_share(self, n: int, share: float) -> None:
        self.rule.check_share(n, share)


@final
@dataclass(frozen=True, repr=False)
class Remembering(Around):
    """One call of a memory: the rule on the views of the workers, its weights on their clipped updates."""

    recall: Recall = field(compare=False)
    tolerated: int | None = None  # by the rule that the member was drawn from, where there was a draw

    def __repr__(self) -> str:
        return repr(self.rule)

    def plan(self, arrival: Arrival, request: Request, n: int, key: bytes | None = None) -> Plan:
        plan = self.rule.plan(arrival, request, n, key)
        return Plan(replace(self, rule=plan.rule, tolerated=self.rule.tolerates(n)), plan.key, plan.facts)

    def _tolerated(self, n: int) -> int:
        return self.rule.tolerates(n) if self.tolerated is None else self.tolerated

    def decide(self, updates: Updates) -> Point:
        return self._decided(updates, None)

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        return self._decided(updates, weighting)

    def _decided(self, updates: Updates, weighting: Weighting | None) -> Point:
        mass = None if weighting is None else weighting.mass
        lengths = updates.norms()
        factors = clip_factors(lengths, median(lengths) if mass is None else median_of(lengths, mass))
        history = self.recall.history
        history.settle(updates.reader.group)
        sketches = updates.sketch(history.key, history.size)
        sketches = np.where(factors[:, None] > 0.0, sketches * factors[:, None], 0.0)
        # Beside the received updates stand those that an attacker tries.
        rows = updates.received if len(updates.received) == updates.n else tuple(range(updates.n))
        # What looks at one view, or counts suspects, uses the steady ones alone.
        steady, pairs = self.recall.views(sketches, rows, updates.d, mass)
        views = np.concatenate([steady, pairs[None]])
        point = _on_view(self.rule, widest(steady, mass), updates.call.seeing(views), weighting)
        weights = _weights_of(point)
        if weights is None:
            _refuse_rule(self.rule)
        # Copies of one update share the weight of one, so that nobody gains by sending the same from several workers.
        shared = weights / self.recall.copies
        counted, share = None, float(min(self._tolerated(updates.n), (updates.n - 1) // 2))
        if weighting is not None:
            counted = weighting.relative
            share = weighting.share * float(counted.sum())
        following = shared * self.recall.following(share, counted)
        if following.sum() >= shared.sum() / updates.n:  # else nobody would be left
            shared = following
        weights = shared * (weights.sum() / shared.sum())
        self.recall.decided(weights)
        facts = dict(point.facts)
        if self.recall.suspects and updates.n <= _COUNTED:
            # Over a few dozen rounds of workers with momentum, honest ones seem to move together.
            kept = above_noise(steady, (updates.n - 1) // 2, counted).weights
            hostile = (kept < 0.5 * kept.max()) | (self.recall.copies > 1.0)
            if mass is not None:
                hostile &= mass > 0.0
            facts["suspects"] = tuple(rows[row] for row in np.nonzero(hostile)[0])
        clipped = updates if (factors == 1.0).all() else updates.mix(np.diag(factors))
        return clipped.combine(weights, **facts)


def _on_view(rule: Rule, view: Floats, call: Call, weighting: Weighting | None = None) -> Point:
    """What a rule makes of rows that have these inner products. Most query distances; for others, rows are made."""

    def decide(updates: Updates) -> Point:
        return rule.decide(updates) if weighting is None else rule.decide_weighted(updates, weighting)

    try:
        seen = Updates.of(Unseen(len(view)), call)
        seen.basis.learn(2.0, distances_of(view))  # not checked: ours, not a user's
        return decide(seen)
    except NeedsCoordinates:
        return decide(Updates.of(Matrix.of(embedded(view)), call))


def _weights_of(point: Point) -> Any:
    """The weights of a point on the rows that its rule was given; None where it is no combination of them."""
    return point.updates.over_received(point.weights) if isinstance(point, Combination) else None


def check_combines(rule: Rule) -> None:
    """Try a rule, and each of a pool, on a few rows: what computes each coordinate by itself cannot use views."""
    if any(isinstance(part, Bounded) for part in walk(rule)):
        refuse("A memory decides from views, in which the lengths of updates are lost. Write Guarded(Memory(...)).")
    for member in rule.rules if isinstance(rule, MixTailor) else (rule,):
        tried = member if not member.declared_f() else member.with_f(1)  # the kind of rule matters, not its f
        n = max(tried.min_rows(), 3)
        point = _on_view(tried, np.eye(n), Call(np.random.default_rng(0), views=np.eye(n)[None]))
        if _weights_of(point) is None:
            _refuse_rule(member)


def _refuse_rule(rule: Rule) -> Any:
    refuse(
        f"A memory needs a rule whose result is a weighted mean of the updates, and {rule!r} computes it coordinate by "
        "coordinate. Take ViewFilter, CAF, GeometricMedian, MultiKrum, or NNM before one of them."
    )
