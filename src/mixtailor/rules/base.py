"""`Rule`: from updates to a point. The base checks, quarantines and translates; a rule is left with its formula."""

import dataclasses
import secrets
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, SupportsBytes

import numpy as np

from mixtailor._checks import FaultError, check_rows, fault_message, refuse
from mixtailor.intake import Arrival, receive
from mixtailor.rules._release import released
from mixtailor.rules.aggregation import Aggregation, Quarantined
from mixtailor.rules.part import Part
from mixtailor.updates import Call, Faulty, Updates
from mixtailor.updates.plain import from_callable
from mixtailor.updates.points import Combination, Point

if TYPE_CHECKING:
    from mixtailor._types import Floats

__all__ = ["KeySource", "Plain", "Plan", "Rule", "as_rule"]

OnFault = Literal["raise", "skip"]


class KeySource(Protocol):
    """Where the randomness of a call comes from: `mixtailor.mixing.Entropy` is one.

    A key for "preaggregation" may be anything that `bytes` can be made of: it is asked for in every call, and used in
    few.
    """

    def key(self, purpose: str) -> SupportsBytes: ...


@dataclasses.dataclass(frozen=True)
class Plan:
    """What was settled before anything is computed: the rule, drawn where there is a draw, and the call's key."""

    rule: "Rule"
    key: SupportsBytes
    facts: Mapping[str, object] = dataclasses.field(default_factory=dict)


class Rule(Part):
    """From n updates to one.

    Laws, which the suite checks for every exported rule, each where the rule's definition has it so (`lacks` names
    those that it lacks, and why):

    - ``permutation``: the order of the rows does not matter (in distribution, where a rule uses randomness);
    - ``translation``: adding a vector to all rows adds it to the answer;
    - ``scale``: scaling all rows by a positive number scales the answer.

    The input is never written to and the answer never aliases it; the answer has the type of one update; whatever at
    most f rows contain, the answer is finite. A rule is pure: it keeps no state and draws nothing but from
    ``updates.random``.
    """

    requirement: ClassVar[str]
    cost: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}
    robust: ClassVar[bool] = True  # whether it withstands any row at all
    kappa_is_ours: ClassVar[bool] = False  # whether the coefficient is proved in the rule's notes rather than published
    reads_all: ClassVar[bool] = True  # whether every coordinate of every row is read, so that every fault is found

    @abstractmethod
    def min_rows(self) -> int:
        """The least n that the requirement allows."""

    @abstractmethod
    def decide(self, updates: Updates) -> Point:
        """The answer, described."""

    def tolerates(self, n: int) -> int:
        """How many of n rows may be faulty."""
        f = self.declared_f()
        return 0 if f is None else f

    def kappa(self, n: int, f: int, d: int) -> float | None:
        """The published robustness coefficient: ``|answer - honest mean|^2 <= kappa * honest variance``."""
        return None

    # What users call.

    def __call__(
        self,
        updates: Any,
        *,
        workers: Sequence[object] | None = None,
        reference: Any = None,
        honest: Sequence[int] | None = None,
        round: int | None = None,
        entropy: KeySource | None = None,
        on_fault: OnFault = "raise",
    ) -> Any:
        """The aggregated update; see `aggregate`."""
        with released(self._held):
            return self._round(updates, workers, reference, honest, round, entropy, on_fault).run().update

    def aggregate(
        self,
        updates: Any,
        *,
        workers: Sequence[object] | None = None,
        reference: Any = None,
        honest: Sequence[int] | None = None,
        round: int | None = None,
        entropy: KeySource | None = None,
        on_fault: OnFault = "raise",
    ) -> Aggregation:
        """The aggregated update, with what happened.

        Parameters
        ----------
        updates : array, tensor, or sequence
            An (n, d) array or tensor, or a list of n arrays, state dicts, layer lists or file paths.
        workers : sequence, optional
            The workers' names, for messages, in the order of the rows.
        reference : update, optional
            What the caller trusts, or had last round; rules that need one say so.
        honest : sequence of int, optional
            The honest rows, for `Omniscient` alone.
        round : int, optional
            The round's number, for an audited draw.
        entropy : KeySource, optional
            Where randomness comes from; the operating system by default.
        on_fault : {"raise", "skip"}
            What to do when more rows are provably faulty than the rule withstands.
        """
        with released(self._held):
            # Handed on, not kept: what a rule leaves behind is freed before the answer is released, too.
            return _told(self._round(updates, workers, reference, honest, round, entropy, on_fault))

    def _round(
        self,
        updates: Any,
        workers: Sequence[object] | None,
        reference: Any,
        honest: Sequence[int] | None,
        round: int | None,
        entropy: KeySource | None,
        on_fault: OnFault,
    ) -> "_Round":
        """Receive and check; the rule is drawn where there is a draw, and nothing is computed yet."""
        if on_fault not in ("raise", "skip"):
            refuse(f"on_fault needs to be 'raise' or 'skip' and is {on_fault!r}.")
        arrival = receive(updates)
        names = _names(workers, arrival.n)
        self._check_rows(arrival.n)
        plan = self._plan(arrival, names, n=arrival.n, entropy=entropy, round=round)
        flat = None if reference is None else arrival.flatten(reference)
        allowed = min(self.tolerates(arrival.n), arrival.n - 1)  # of no rows nothing can be made
        return _Round(plan, arrival, names, flat, honest, allowed, on_fault)

    def _check_rows(self, n: int) -> None:
        """Refuse too few rows. Worded only then: that takes longer than many a rule."""
        if n < self.min_rows():
            check_rows(self, self._needs(), self.min_rows(), n)

    def _needs(self) -> str:
        """The requirement, as errors word it."""
        return self.requirement

    def missing_laws(self) -> Mapping[str, str]:
        """The laws that do not hold, and why."""
        return self.lacks

    def _plan(
        self,
        arrival: Arrival,
        names: Sequence[object],
        *,
        n: int,
        entropy: KeySource | None,
        round: int | None,
    ) -> Plan:
        """Settle the rule and the key, once a call, after the updates have arrived; n rows will reach the rule."""
        return Plan(self, secrets.token_bytes(32) if entropy is None else entropy.key("preaggregation"))

    def lowered(self, n: int, gone: int) -> "Rule":
        """The rule for the n rows left when `gone` have left: f is lowered only as far as the requirement asks."""
        f = self.declared_f()
        if f is None:
            return self
        for lower in range(min(gone, f) + 1):
            candidate = self.with_f(f - lower)
            if candidate.min_rows() <= n:
                break
        return candidate


def _names(workers: Sequence[object] | None, n: int) -> tuple[object, ...]:
    if workers is None:
        return ()
    if len(workers) != n:
        refuse(f"workers= needs one name for each of the {n} updates and got {len(workers)}.")
    return tuple(workers)


def _told(call: "_Round") -> Aggregation:
    return call.told(call.run())


class _Result(NamedTuple):
    """The result of a call; no point and no update where the round was skipped."""

    rule: Rule
    point: Point | None
    update: Any
    updates: Updates
    faults: dict[int, str]


@dataclasses.dataclass
class _Round:
    """One call: decide, and where a row proves a fault, take it out and start again with the same randomness."""

    plan: Plan
    arrival: Arrival
    names: tuple[object, ...]
    reference: Any
    honest: Sequence[int] | None
    allowed: int
    on_fault: OnFault

    def run(self) -> "_Result":
        faults, updates = dict(self.arrival.faults), Updates.arrived(self.arrival)
        while True:
            if len(faults) > self.allowed:
                if self.on_fault == "skip":
                    return _Result(self.plan.rule, None, None, updates, faults)
                message = fault_message(faults, self.arrival.n, self.allowed, self.names)
                raise FaultError(message, tuple(sorted(faults)))
            rule = self.plan.rule.lowered(updates.n, len(faults)) if faults else self.plan.rule
            updates.call = self._call(updates)
            try:
                # A row at the edge of its type makes lengths overflow, which rules reckon with: not a warning's worth,
                # and where warnings are errors it would let one worker stop the server.
                with np.errstate(all="ignore"):
                    point = rule.decide(updates)
                    result = updates.at(point)
            except Faulty as found:
                faults.update(dict.fromkeys(found.rows, found.reason))
                if len(faults) <= self.allowed:
                    updates = updates.only([k for k, row in enumerate(updates.received) if row not in faults])
                continue
            return _Result(rule, point, self.arrival.restore(result, updates.received), updates, faults)

    def _call(self, updates: Updates) -> Call:
        if self.honest is None:
            return Call(self.plan.key, self.reference)
        position = {row: k for k, row in enumerate(updates.received)}
        return Call(self.plan.key, self.reference, tuple(position[row] for row in self.honest if row in position))

    def _quarantined(self, faults: Mapping[int, str]) -> tuple[Quarantined, ...]:
        return tuple(Quarantined(row, self.names[row] if self.names else None, faults[row]) for row in sorted(faults))

    def told(self, result: "_Result") -> Aggregation:
        """The answer with what happened: as much work as a small rule, so that a plain call leaves it out."""
        rule, point, update, updates, faults = result
        if point is None:
            return Aggregation(None, rule, self.arrival.n, quarantined=self._quarantined(faults), workers=self.names)
        facts = {**self.plan.facts, **point.facts}
        received, weights, distances = updates.received, None, None
        aim = point.updates.over_received(point.weights) if isinstance(point, Combination) else None
        if aim is not None:
            weights = _scattered(aim, point.updates.received, self.arrival.n, elsewhere=0.0)
            distances = updates.known_distances_to(aim) if point.updates.reader is updates.reader else None
        scores, selected = facts.pop("scores", None), facts.pop("selected", None)
        return Aggregation(
            update,
            rule,
            self.arrival.n,
            weights=weights,
            selected=_selected(selected, weights, received),
            scores=_scattered(scores, received, self.arrival.n),
            distances=_scattered(distances, received, self.arrival.n),
            quarantined=self._quarantined(faults),
            iterations=facts.pop("iterations", None),  # type: ignore[arg-type]  # a rule that iterates gives an int
            residual=facts.pop("residual", None),  # type: ignore[arg-type]  # and a float
            facts=facts,
            workers=self.names,
        )


def _selected(selected: Any, weights: "Floats | None", received: tuple[int, ...]) -> tuple[int, ...] | None:
    if selected is not None:
        return tuple(received[row] for row in selected)
    if weights is None:
        return None
    return tuple(weights.nonzero()[0].tolist())


def _scattered(scores: Any, received: tuple[int, ...], n: int, elsewhere: float = np.nan) -> "Floats | None":
    """Scores of the rows left, at the rows as received; scores of mixed rows have no such place."""
    if scores is None or len(scores) != len(received):
        return None
    if received == tuple(range(n)):
        return np.array(scores, np.float64)
    placed = np.full(n, elsewhere)
    placed[list(received)] = scores
    return placed


@dataclasses.dataclass(frozen=True)
class Plain(Rule):
    """Any callable from an (n, d) matrix to a d-vector, as a rule. It materialises the matrix of all updates.

    Parameters
    ----------
    function : callable
        Gets the rows that are finite, as a numpy array, or a tensor where the updates are tensors on a device.

    Examples
    --------
    >>> Plain(lambda rows: rows.max(axis=0))(np.array([[1.0, 5.0], [3.0, 2.0]]))
    array([3., 5.])
    """

    function: Callable[[Any], Any]

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "its own, and the memory of all updates"
    lacks: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("permutation", "translation", "scale"), "nothing is known of a plain callable"
    )

    def min_rows(self) -> int:
        return 1

    def tolerates(self, n: int) -> int:
        return (n - 1) // 2

    def decide(self, updates: Updates) -> Point:
        return from_callable(updates, self.function, repr(self))

    def __repr__(self) -> str:
        return f"Plain({getattr(self.function, '__qualname__', repr(self.function))})"


def as_rule(rule: Any) -> Rule:
    """A rule as it is, any other callable as a `Plain` rule."""
    if isinstance(rule, Rule):
        return rule
    if isinstance(rule, type) or not callable(rule):
        raise TypeError(f"A rule or a callable from an (n, d) matrix to a d-vector is needed, and {rule!r} is neither.")
    return Plain(rule)
