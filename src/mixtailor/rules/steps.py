"""Rules that read the updates once per step, and how many of them share each reading."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from mixtailor._types import Floats
from mixtailor.rules.part import Asks
from mixtailor.updates import Columns, Combination, Point, Updates

__all__ = ["Query", "Steps", "decide_by_steps", "prefetch", "side_by_side"]


class Query(NamedTuple):
    """What one step asks for: the distances of all updates to a point, in a norm."""

    point: Point
    p: float


# Yields a query, is sent the n distances, and returns the result.
Steps: TypeAlias = Generator[Query, Floats, Point]


class _Asking(Protocol):
    """What `prefetch` needs of a rule: `mixtailor.rules.Rule` has it."""

    def asks(self) -> Asks: ...
    def steps(self, updates: Updates) -> Steps | None: ...


def prefetch(rules: Iterable[_Asking], updates: Updates) -> None:
    """Query what several rules will ask for, so that the updates are read as seldom as possible.

    One reading gives the distances in all norms. Rules that iterate advance side by side, with one reading per step,
    and `decide` of each of them then returns what was found.

    Examples
    --------
    >>> import mixtailor as mt
    >>> from mixtailor.intake import receive
    >>> rows = np.array([[1.0, 2.0], [1.1, 2.0], [0.9, 2.1], [1.0, 1.9], [9e9, 0.0]])
    >>> updates = Updates.arrived(receive(rows))
    >>> pool = [mt.Krum(1), mt.Krum(1, p=3), mt.GeometricMedian(p=3), mt.GeometricMedian(p=4)]
    >>> prefetch(pool, updates)
    >>> [updates.at(rule.decide(updates)).round(2).tolist() for rule in pool]
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    distinct = list(dict.fromkeys(rules))
    norms = frozenset().union(*(rule.asks().norms for rule in distinct))
    if len(norms) > 1:
        updates.distances(tuple(sorted(norms)))
    running = {rule: run for rule in distinct if (run := rule.steps(updates)) is not None}
    if len(running) > 1:
        for rule, point in zip(running, side_by_side(list(running.values()), updates), strict=True):
            updates.remember(("steps", rule), lambda point=point: point)  # type: ignore[misc]  # bound now, not later


def decide_by_steps(rule: _Asking, updates: Updates) -> Point:
    """The result of a rule that iterates: what `prefetch` found, or else its steps taken now."""

    def now() -> Point:
        run = rule.steps(updates)
        assert run is not None, f"{rule!r} offers no steps"
        return side_by_side([run], updates)[0]

    return updates.remember(("steps", rule), now)


def side_by_side(runs: Sequence[Steps], updates: Updates) -> list[Point]:
    """The results of several iterations: each step reads the updates once for all that are still running."""
    found: dict[int, Point] = {}
    waiting: dict[int, Query] = {}

    def advance(place: int, distances: Floats | None) -> None:
        try:
            waiting[place] = runs[place].send(distances)  # type: ignore[arg-type]  # None starts a generator
        except StopIteration as stop:
            waiting.pop(place, None)
            found[place] = stop.value

    for place in range(len(runs)):
        advance(place, None)
    while waiting:
        places = list(waiting)
        for index, distances in _distances(updates, list(waiting.values())):
            advance(places[index], distances)
    return [found[place] for place in range(len(runs))]


def _distances(updates: Updates, queries: Sequence[Query]) -> Iterator[tuple[int, Floats]]:
    """The distances that each query asks for, by its index: one reading for all combinations, one per other point."""
    combined = [k for k, query in enumerate(queries) if isinstance(query.point, Combination)]
    if combined:
        points = [query.point for query in queries if isinstance(query.point, Combination)]
        yield from zip(combined, updates.distances_to_each(points, [queries[k].p for k in combined]), strict=True)
    left = [k for k, query in enumerate(queries) if not isinstance(query.point, Combination)]
    while left:
        point = queries[left[0]].point
        same = [k for k in left if _is_same(queries[k].point, point)]
        yield from zip(same, updates.lengths_to(point, [queries[k].p for k in same]), strict=True)
        left = [k for k in left if k not in same]


def _is_same(one: Point, other: Point) -> bool:
    """Whether two points are one and the same, or the same statistic of the same updates."""
    if isinstance(one, Columns) and isinstance(other, Columns):
        return one.updates is other.updates and one.statistic == other.statistic
    return one is other
