"""`Attack`: from the honest updates to the f updates of the Byzantine workers. The base checks and translates."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np

from mixtailor._checks import check_f, listing, refuse
from mixtailor._types import Floats
from mixtailor.intake import Arrival, receive
from mixtailor.intake.arrays import is_array, is_torch
from mixtailor.rules.part import Part
from mixtailor.updates import Call, Combination, Faulty, Point, Updates

__all__ = ["Attack", "Crafted", "Line", "Linear", "Scene"]

Seed = np.random.Generator | int | None


@dataclass(frozen=True)
class Scene:
    """What an attack has before it, in one round.

    Attributes
    ----------
    honest : Updates
        The updates of the honest workers, as far as the attacker knows them.
    f : int
        How many updates to send.
    n : int
        How many updates the server will receive.
    own : Updates or None
        The f correct updates that the Byzantine workers would have sent.
    state : object
        The memory of an attacker that plays over rounds, made by `Attack.begin`; the attack brings it up to date.
    random : Generator
        The attacker's own randomness.
    arrival : Arrival or None
        How the updates came in, where they did.
    workers : tuple or None
        The names of the workers, first those of the honest updates and then those of the Byzantine ones.
    """

    honest: Updates
    f: int
    n: int
    own: Updates | None
    state: Any
    random: np.random.Generator
    arrival: Arrival | None = None
    workers: tuple[object, ...] | None = None

    def own_row(self, i: int) -> Combination:
        """What Byzantine worker i would have sent; where that is not known, the mean of the honest updates."""
        return self.honest.mean() if self.own is None else self.own.row(i)

    def everyone(self) -> Updates:
        """The honest updates and, where they are known, the correct updates of the Byzantine workers."""
        if self.own is None:
            return self.honest
        return self.honest.beside(*(self.own.row(i) for i in range(self.own.n)))

    def flat(self, update: Any) -> Any:
        """An update from outside as a flat vector in the array type of the updates."""
        return update if self.arrival is None else self.arrival.flatten(update)


@dataclass(frozen=True, eq=False)
class Crafted:
    """What an attack made, and what it found on the way.

    Attributes
    ----------
    rows : Any
        The f updates, in the form in which the honest updates came.
    attack : Attack
        The attack that made them.
    facts : Mapping
        The size that a search settled on, its value, the number of rule evaluations, and similar facts.
    """

    rows: Any
    attack: "Attack"
    facts: Mapping[str, object] = field(default_factory=dict)


class Attack(Part):
    """From the honest updates to f updates.

    Laws: an attack is a frozen dataclass without state: what it remembers is in the `state` that it is given. Nothing
    that came in is written to. The updates are of the type, shape and form of the honest updates. `points` computes no
    coordinates: it describes the updates, so that a target can be tried on ``honest.beside(*points)``.

    Attributes
    ----------
    needs : str
        What the attacker has to know, for tables.
    alone : bool
        Whether one worker can run it from its own update alone.
    remembers : bool
        Whether it plays over rounds and wants the state that `begin` makes.
    on_labels : bool
        Whether it acts on the data, before the updates are computed.
    """

    needs: ClassVar[str]
    alone: ClassVar[bool] = False
    remembers: ClassVar[bool] = False
    on_labels: ClassVar[bool] = False

    @abstractmethod
    def points(self, scene: Scene) -> Sequence[Point]:
        """The f updates, described. What is worth reporting goes into the facts of the first."""

    def begin(self) -> Any:
        """The memory of an attacker before its first round; None where it has none."""
        return None

    def least_f(self) -> int:
        """How many Byzantine workers it takes."""
        return 1

    def least_rows(self) -> int:
        """How many updates its target needs; 0 if it has none."""
        target = getattr(self, "target", None)
        return 0 if target is None else int(target.min_rows())

    def needs_own(self) -> bool:
        """Whether it starts from the correct updates of the Byzantine workers, and not from the honest ones alone."""
        return self.alone or self.on_labels

    # What users call.

    def __call__(
        self, honest: Any, f: int, *, own: Any = None, state: Any = None, rng: Seed = None, reference: Any = None
    ) -> Any:
        """The f Byzantine updates; see `craft`."""
        return self.craft(honest, f, own=own, state=state, rng=rng, reference=reference).rows

    def craft(
        self,
        honest: Any,
        f: int,
        *,
        own: Any = None,
        state: Any = None,
        rng: Seed = None,
        workers: Sequence[object] | None = None,
        reference: Any = None,
    ) -> Crafted:
        """The f Byzantine updates, with what the attack found.

        Parameters
        ----------
        honest : array, tensor, or sequence
            The honest updates, in any form that rules take.
        f : int
            How many updates to send; fewer than there are honest ones.
        own : array, tensor, or sequence, optional
            The f correct updates that the Byzantine workers would have sent.
        state : object, optional
            The memory of an attacker that plays over rounds, from `begin`; it is brought up to date.
        rng : Generator or int, optional
            The attacker's randomness; fresh from the operating system by default.
        workers : sequence, optional
            The workers' names, first those of the honest updates and then the f Byzantine ones, for attacks on a server
            that remembers workers by name.
        reference : update, optional
            What the server gives its rule as ``reference=`` in this round, for attacks that try a rule with one.
        """
        self._check_f(f)
        arrival, rows, correct = self._received(honest, f, own, reference)
        points = self._decided(rows, f, correct, state, rng, arrival, workers)
        made: dict[int, Any] = {}  # rows that are one point are computed once
        try:
            for point in points:
                if id(point) not in made:
                    made[id(point)] = rows.at(point)
        except Faulty as found:
            self._faulty(found.rows, found.reason)
        given = [arrival.restore(_copied(made[id(point)], fresh), arrival.received) for point, fresh in _firsts(points)]
        return Crafted(_like(honest, given), self, dict(points[0].facts))

    def decide(
        self, honest: Updates, f: int, *, own: Updates | None = None, state: Any = None, rng: Seed = None
    ) -> Sequence[Point]:
        """The f updates as points, without computing them: the target sees ``honest.beside(*points)``."""
        self._check_f(f)
        return self._decided(honest, f, own, state, rng, None)

    def corrupt(self, update: Any, *, state: Any = None, rng: Seed = None) -> Any:
        """What one worker sends in place of its update, for attacks that one worker can run alone."""
        if not self.alone:
            refuse(f"{self!r} needs {self.needs} and cannot be run by one worker from its own update.")
        return self([update], 1, own=[update], state=state, rng=rng)[0]

    def _decided(
        self,
        honest: Updates,
        f: int,
        own: Updates | None,
        state: Any,
        rng: Seed,
        arrival: Arrival | None,
        workers: Sequence[object] | None = None,
    ) -> Sequence[Point]:
        if not self.alone and f >= honest.n:
            refuse(
                f"{self!r} needs more honest rows than Byzantine ones (f < honest) and got {honest.n} honest and "
                f"f = {f}. Lower f, or give more honest rows."
            )
        if own is not None and own.n != f:
            refuse(f"own= needs one correct row for each of the f = {f} Byzantine workers and got {own.n}.")
        if workers is not None and len(workers) != honest.n + f:
            refuse(f"workers= needs the names of {honest.n} honest and {f} Byzantine workers and got {len(workers)}.")
        if self.remembers and state is None:
            state = self.begin()
        names = None if workers is None else tuple(workers)
        scene = Scene(honest, f, honest.n + f, own, state, np.random.default_rng(rng), arrival, names)
        try:
            points = self.points(scene)
        except Faulty as found:
            self._faulty(found.rows, found.reason)
        assert len(points) == f, f"{self!r} made {len(points)} rows for f = {f}"
        return points

    def _check_f(self, f: int) -> None:
        name = repr(self)
        check_f(name, f)
        if f < self.least_f():
            refuse(f"{name} needs f >= {self.least_f()} Byzantine rows to send and got f = {f}.")

    def _received(self, honest: Any, f: int, own: Any, reference: Any) -> tuple[Arrival, Updates, Updates | None]:
        if own is None:
            arrival = receive(honest)
            self._check_sound(arrival)
            return arrival, Updates.arrived(arrival, _call(arrival, reference)), None
        if isinstance(honest, Arrival) or isinstance(own, Arrival):
            raise TypeError("own= needs rows in the form that the honest updates have, both as arrays or as lists.")
        # All are received together, so that honest and correct rows share their distances.
        arrival = receive([*honest, *own])
        self._check_sound(arrival)
        if len(own) != f:
            refuse(f"own= needs one correct row for each of the f = {f} Byzantine workers and got {len(own)}.")
        everyone, rows = Updates.arrived(arrival, _call(arrival, reference)), np.arange(arrival.n)
        first, second = rows[: len(honest)], rows[len(honest) :]
        return arrival, everyone.take(first, shared=True), everyone.take(second, shared=True)

    def _check_sound(self, arrival: Arrival) -> None:
        if arrival.faults:
            row = min(arrival.faults)
            self._faulty(sorted(arrival.faults), arrival.faults[row])

    def _faulty(self, rows: Sequence[int], reason: str) -> NoReturn:
        refuse(
            f"{self!r} needs sound honest updates, since it computes with them, and row{'s' * (len(rows) > 1)} "
            f"{listing(rows)} {'are' if len(rows) > 1 else 'is'} {reason}."
        )


def _call(arrival: Arrival, reference: Any) -> Call:
    return Call(reference=None if reference is None else arrival.flatten(reference))


def _firsts(points: Sequence[Point]) -> list[tuple[Point, bool]]:
    """Each point, and whether it comes for the first time."""
    seen: set[int] = set()
    marked = []
    for point in points:
        marked.append((point, id(point) not in seen))
        seen.add(id(point))
    return marked


def _copied(result: Any, fresh: bool) -> Any:
    """The result itself, or a copy where an earlier row has it: rows must not alias one another."""
    if fresh:
        return result
    if isinstance(result, list):
        return [_copied(part, False) for part in result]
    return result.clone() if is_torch(result) else result.copy()


def _like(honest: Any, rows: list[Any]) -> Any:
    """Rows in the form of what came in: a matrix for a matrix, else a list."""
    if not is_array(honest):
        return rows
    if is_torch(honest):
        import torch

        return torch.stack(rows)
    if hasattr(rows[0], "__array_namespace__"):
        return rows[0].__array_namespace__().stack(rows)
    return np.stack(rows)


@dataclass(frozen=True, eq=False)
class Line:
    """Rows ``base + t * direction``, all in one geometry, so that trying many t costs no more passes where p = 2.

    Attributes
    ----------
    frame : Updates
        The honest updates and what the line needs besides.
    base, direction : array
        Weights on the rows of the frame.
    """

    frame: Updates
    base: Floats
    direction: Floats

    def at(self, t: float, **facts: object) -> Combination:
        """The point of the line at t."""
        return self.frame.combine(self.base + t * self.direction, **facts)


class Linear(Attack):
    """An attack whose f equal updates lie on a line; `LineSearch` looks for the worst place on it against a target."""

    @abstractmethod
    def line(self, scene: Scene) -> Line:
        """The line."""

    @abstractmethod
    def size(self, scene: Scene, line: Line) -> float:
        """Where on the line the attack's own definition puts the updates."""

    def points(self, scene: Scene) -> Sequence[Point]:
        line = self.line(scene)
        size = self.size(scene, line)
        return [line.at(size, size=size)] * scene.f


Reference = Literal["mean", "unattacked"]
