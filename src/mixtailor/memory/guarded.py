"""`Guarded`: a rule whose result is held to what was sent in this round and in the rounds before."""

import math
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, ClassVar, Self, Unpack, final

from mixtailor._checks import check_count, check_positive, refuse
from mixtailor.memory.keeping import Keeping
from mixtailor.memory.memory import Memory
from mixtailor.mixing import MixTailor
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import Rule, outside_graph, traced
from mixtailor.rules.bounded import Bounded, check_one_f, check_slack, scale_of, shortened
from mixtailor.rules.part import Asks
from mixtailor.rules.plain import as_rule, check_inner
from mixtailor.rules.request import RequestKeywords
from mixtailor.updates import Point, Updates

__all__ = ["Guarded"]

_LEAST = 5  # rounds before the past has a say: the median of fewer is one round's word


@final
@dataclass(frozen=True, repr=False)
class Guarded(Keeping):
    r"""A rule whose result is no longer than this round's honest majority and the last rounds allow.

    .. math:: \lVert U_t \rVert \le c \min\left( R_t, \; g \cdot \mathrm{median}(R_{t - w}, \ldots, R_{t - 1}) \right)

    with R the (f + 1)-th largest length of a round's updates, as in `Bounded`. The first bound holds while at most f
    of a round's updates are Byzantine. The second holds even in rounds in which more are, as long as those are fewer
    than half of the last w rounds. So whoever saves up for one blow gets no more than g times an ordinary step.

    Parameters
    ----------
    rule : rule
        Any; a `Memory`, and so `recommended`, as well.
    f : int, optional
        How many updates may be Byzantine; by default what the rule tolerates.
    slack : float
        c, at least 1.
    growth : float
        g, at least 1: how much longer than the last rounds' median an update may be.
    window : int
        w, how many rounds are remembered.

    Examples
    --------
    In the last round all four updates are Byzantine, and no rule of one round can know it.

    >>> from mixtailor import Comed, Guarded
    >>> guarded = Guarded(Comed(), window=10)
    >>> for _ in range(10):
    ...     result = guarded(np.array([[1.0, 0.0], [1.1, 0.0], [0.9, 0.0], [1.0, 0.1]]))
    >>> guarded(np.full((4, 2), -9e9)).round(2)
    array([-1.42, -1.42])

    Notes
    -----
    The past has a say after five rounds. Where honest updates really become longer, by more than the growth within half
    a window, their mean is shortened until the median has followed, w/2 rounds later: training is slower there, and
    goes in the same direction. No coefficient is declared, since the variance of one round says nothing about the
    rounds before; while the past does not bind, that of `Bounded` holds.

    The state has one number for each round of the window, beside what a `Memory` inside keeps.
    """

    f: int | None = field(default=None, kw_only=True)
    slack: float = field(default=1.0, kw_only=True)
    growth: float = field(default=2.0, kw_only=True)
    window: int = field(default=20, kw_only=True)
    _scales: deque[float] = field(init=False, repr=False, compare=False)
    _mutex: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False, compare=False)

    lacks: ClassVar[Mapping[str, str]] = {
        "translation": "the length of the result is from the origin",
        "scale": "the rounds before had another scale",
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", as_rule(self.rule))
        if not isinstance(self.rule, Memory):
            check_inner("Guarded", self.rule)
        check_slack("Guarded", self.slack)
        check_positive("Guarded", "growth", self.growth)
        if self.growth < 1.0:
            refuse(f"Guarded needs growth >= 1, or results shrink from round to round, and got {self.growth}.")
        check_count("Guarded", "window", self.window, _LEAST)
        check_one_f("Guarded", self.f, self.rule)
        object.__setattr__(self, "_scales", deque(maxlen=self.window))

    def __repr__(self) -> str:
        known = {"f": None, "slack": 1.0, "growth": 2.0, "window": 20}
        parts = [f"{name}={getattr(self, name)!r}" for name, usual in known.items() if getattr(self, name) != usual]
        return f"Guarded({', '.join([repr(self.rule), *parts])})"

    def __reduce__(self) -> Any:
        options = {"f": self.f, "slack": self.slack, "growth": self.growth, "window": self.window}
        return _unpickled, (self.rule, options, list(self._scales))

    def min_rows(self) -> int:
        return max(self.rule.min_rows(), 2 * (self.declared_f() or 0) + 1)

    def needs(self) -> str:
        return super().needs() if self.min_rows() == self.rule.min_rows() else "n >= 2f + 1"

    def tolerates(self, n: int) -> int:
        return self.rule.tolerates(n) if self.f is None else self.f

    def asks(self) -> Asks:
        return self.rule.asks()

    @property
    def limit(self) -> float:
        """What the last rounds allow; infinite in the first few."""
        if len(self._scales) < _LEAST:
            return math.inf
        return self.slack * self.growth * median(self._scales)

    def decide(self, updates: Updates) -> Point:
        """What the result would be, with nothing learnt from it."""
        scale = scale_of(updates, self.tolerates(updates.n))
        return shortened(updates, self.rule.decide(updates), min(self.slack * scale, self.limit), scale=scale)

    def expect(self, workers: Sequence[object]) -> None:
        if isinstance(self.rule, Keeping):
            self.rule.expect(workers)

    def repeated(self, workers: Sequence[object]) -> None:
        if isinstance(self.rule, Keeping):
            self.rule.repeated(workers)

    def members(self, n: int) -> "tuple[tuple[Guarded, ...], tuple[float, ...]]":
        if isinstance(self.rule, Keeping):
            rules, shares = self.rule.members(n)
        elif isinstance(self.rule, MixTailor):
            rules, shares = self.rule.rules, self.rule.shares(n)
        else:
            return (self,), (1.0,)
        kept = [place for place, share in enumerate(shares) if share > 0.0]
        return tuple(self._around(rules[place]) for place in kept), tuple(shares[place] for place in kept)

    def _around(self, rule: Rule) -> "Guarded":
        made = replace(self, rule=rule)
        object.__setattr__(made, "_scales", self._scales)
        return made

    def aggregate(self, updates: Any, **request: Unpack[RequestKeywords]) -> Aggregation:
        """The aggregated update, with what happened; the scale of the round is remembered."""
        if traced():
            return outside_graph(self.aggregate)(updates, **request)
        with self._mutex:
            limit = None if math.isinf(self.limit) else self.limit

            def held(rule: Rule) -> Rule:
                return Bounded(rule, f=self.f, slack=self.slack, limit=limit)

            if isinstance(self.rule, Memory):
                result = self.rule.aggregate_within(held, updates, **request)
            else:
                result = held(self.rule).aggregate(updates, **request)
            scale = result.facts.get("scale")
            if isinstance(scale, float) and 0.0 < scale < math.inf:
                self._scales.append(scale)
        # The limit is another number in every round, and no part of what was drawn.
        drawn = result.rule.rule if isinstance(result.rule, Bounded) else result.rule
        return replace(result, rule=drawn)

    # State.

    def fresh(self, key: int | None = None) -> Self:
        """The same with nothing remembered."""
        rule = self.rule.fresh(key) if isinstance(self.rule, Memory) else self.rule
        return replace(self, rule=rule)

    def reset(self, key: int | None = None) -> None:
        with self._mutex:
            self._scales.clear()
            if isinstance(self.rule, Keeping):
                self.rule.reset(key)

    def state(self) -> dict[str, Any]:
        with self._mutex:
            inner = self.rule.state() if isinstance(self.rule, Keeping) else {}
            return {**inner, "scales": list(self._scales)}

    def restore(self, state: Mapping[str, Any]) -> None:
        try:
            scales = [float(scale) for scale in state["scales"]]
        except (KeyError, TypeError, ValueError):
            refuse("A guard needs the state that another guard gave, and got something else.")
        if not all(0.0 < scale < math.inf for scale in scales) or len(scales) > self.window:
            refuse(f"The state of a guard is damaged: its scales are not at most {self.window} lengths above 0.")
        with self._mutex:
            if isinstance(self.rule, Keeping):
                self.rule.restore(state)
            self._scales.clear()
            self._scales.extend(scales)


def _unpickled(rule: Rule, options: dict[str, Any], scales: list[float]) -> Guarded:
    made = Guarded(rule, **options)
    made._scales.extend(scales)
    return made
