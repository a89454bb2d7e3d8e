"""`Rule`: from updates to a point. The base checks, quarantines and translates; a rule is left with its formula."""

import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, SupportsBytes, TypeVar, Unpack

import numpy as np

from mixtailor._checks import FaultError, check_rows, fault_message, refuse
from mixtailor.intake import Arrival, receive
from mixtailor.rules._numbers import weights_from_numbers
from mixtailor.rules._release import released
from mixtailor.rules.aggregation import Aggregation, Quarantined
from mixtailor.rules.part import Part
from mixtailor.rules.request import EMPTY, KeySource, Request, RequestKeywords
from mixtailor.rules.steps import Steps
from mixtailor.rules.weighting import WEIGHTED, Weighting, refuse_share
from mixtailor.updates import Call, Faulty, Updates
from mixtailor.updates.points import Combination, Point

if TYPE_CHECKING:
    from mixtailor._types import Floats

__all__ = ["Plan", "Rule", "outside_graph", "traced"]

T = TypeVar("T")


class Plan(NamedTuple):
    """What is settled before anything is computed: the rule, drawn where there is a draw, and the key of the call."""

    rule: "Rule"
    key: SupportsBytes
    facts: Mapping[str, object] = MappingProxyType({})


class Rule(Part):
    """From n updates to one.

    The suite checks these laws for every exported rule. A rule whose definition does not imply one of them declares
    so in `lacks`, with the reason:

    - ``permutation``: the order of the updates does not matter (in distribution, if the rule uses randomness);
    - ``translation``: adding a vector to all updates adds it to the result;
    - ``scale``: scaling all updates by a positive number scales the result.

    The input is never modified and the result never aliases it. The result has the type of one update; a mean of
    integers is not an integer, so updates that are one array of integers give float64. Integers beside floats, as in a
    state dict, are counters: they take no part in distances and keep their type (the lower median of them). Whatever at
    most f updates contain, the result is finite. A rule is pure: it keeps no state, and all its randomness comes from
    ``updates.random``.
    """

    requirement: ClassVar[str]
    cost: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}
    kappa_is_ours: ClassVar[bool] = False  # whether the coefficient is proved in the rule's notes rather than published
    reads_all: ClassVar[bool] = True  # whether it reads every coordinate of every update, and so finds every fault
    outermost: ClassVar[bool] = False  # whether it keeps what it learns, and so cannot be a part of another rule

    @abstractmethod
    def min_rows(self) -> int:
        """The least n that the requirement allows."""

    @abstractmethod
    def decide(self, updates: Updates) -> Point:
        """The result, as a point that is not computed yet."""

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        """The result where each update counts by its weight, and f by the weight that may be Byzantine."""
        refuse(f"{self!r} has no form with weights. {WEIGHTED}")

    def check_share(self, n: int, share: float) -> None:
        """Raise a ValueError if this part of the weight is more than the rule tolerates; n updates have any weight."""
        if self.robust and share >= 0.5:
            refuse_share(self, "share < 1/2", share)

    def weighted_kappa(self, share: float, d: int) -> float | None:
        """The coefficient where Byzantine updates have a share of the weight; honest mean and variance are weighted.

        Weights are in the limit repeated updates, so this is `kappa` at that share where it holds for every n.
        """
        return None

    def tolerates(self, n: int) -> int:
        """How many of n updates may be faulty."""
        f = self.declared_f()
        return 0 if f is None else f

    @property
    def robust(self) -> bool:
        """Whether its result stays bounded, whatever the Byzantine updates are."""
        return True

    def kappa(self, n: int, f: int, d: int) -> float | None:
        """The published robustness coefficient: ``|result - honest mean|^2 <= kappa * honest variance``."""
        return None

    def needs(self) -> str:
        """The requirement as errors word it: the formula, with whatever the parameters add to it."""
        return self.requirement

    def check_rows(self, n: int) -> None:
        """Raise a ValueError if n updates are fewer than the rule needs."""
        if n < self.min_rows():
            check_rows(self, self.needs(), self.min_rows(), n)

    def steps(self, updates: Updates) -> Steps | None:
        """The iteration of a rule that reads the updates once per step, or None for all other rules.

        A generator: it yields a `Query`, is sent the distances that the query asks for, and returns the result. So a
        pool or an attacker can run many rules side by side and share each reading; see `mixtailor.rules.steps`.
        """
        return None

    # What users call.

    def __call__(self, updates: Any, **request: Unpack[RequestKeywords]) -> Any:
        """The aggregated update; see `aggregate`."""
        if traced():
            return outside_graph(self.__call__)(updates, **request)
        wanted = Request.of(request) if request else EMPTY
        if self._held is None:
            return _Round(self, updates, wanted).run()
        with released(self._held):
            return _Round(self, updates, wanted).run()

    def aggregate(self, updates: Any, **request: Unpack[RequestKeywords]) -> Aggregation:
        """The aggregated update, with what happened.

        Parameters
        ----------
        updates : array, tensor, or sequence
            An (n, d) array or tensor, or a list of n arrays, state dicts, layer lists or file paths.
        workers : sequence, optional
            The workers' names, for messages, in the order of the updates.
        reference : update, optional
            A vector that the caller trusts, or the result of the round before; rules that need one say so.
        honest : sequence of int, optional
            The indices of the honest updates, for `Omniscient` alone.
        round : int, optional
            The number of the round, for an audited draw.
        entropy : KeySource, optional
            Where randomness comes from; the operating system by default.
        on_fault : {"raise", "skip"}
            What to do when more updates are provably faulty than the rule tolerates.
        weights : sequence of float, optional
            How much each update counts, as a number of examples does. Equal weights change nothing. Rules that have no
            form with weights refuse them.
        cap : float, optional
            The most of the whole weight that one update has; what is over is spread over the others, as they weigh.
        share : float, optional
            How much of the whole weight may be Byzantine; by default what the f heaviest updates have.
        """
        if traced():
            return outside_graph(self.aggregate)(updates, **request)
        wanted = Request.of(request)
        with released(self._held):
            # No local name keeps the round: its memory is freed before the result is released.
            return _reported(_Round(self, updates, wanted))

    def weights(
        self,
        *,
        distances: Any = None,
        products: Any = None,
        norms: Any = None,
        entropy: KeySource | None = None,
    ) -> "Floats":
        r"""The weights on the updates, from numbers between them alone: the result is their sum, times these weights.

        Whoever has the updates multiplies. It works for every rule whose result is a combination of the updates; rules
        that compute each coordinate by itself refuse.

        Parameters
        ----------
        distances : array, or mapping of norms to arrays, optional
            Distances between the updates, n x n. An array is in the norm that the rule asks for, the Euclidean one
            where it does not ask for a single one.
        products : array, optional
            Inner products of the updates, n x n. They give the Euclidean distances that are not given.
        norms : array, optional
            Euclidean norms of the updates, n, for rules that look at lengths.
        entropy : KeySource, optional
            Where randomness comes from; the operating system by default.

        Examples
        --------
        >>> from mixtailor import Krum, MultiKrum
        >>> between = np.abs(np.subtract.outer([1.0, 2.0, 2.5, 3.0, 9e9], [1.0, 2.0, 2.5, 3.0, 9e9]))
        >>> Krum(f=1).weights(distances=between)
        array([0., 0., 1., 0., 0.])
        >>> MultiKrum(f=1).weights(distances=between)
        array([0.25, 0.25, 0.25, 0.25, 0.  ])
        """
        return weights_from_numbers(self, distances, products, norms, entropy)

    def plan(self, arrival: Arrival, request: Request, n: int, key: bytes | None = None) -> Plan:
        """Settle the rule and the key, once per call, after the updates have arrived: an audited draw depends on these.

        n updates will reach this rule, which may stand behind others in a chain. The key is what a draw further out
        settled; without it, a new one is made.
        """
        if key is not None:
            return Plan(self, key)
        source = request.entropy
        return Plan(self, os.urandom(32) if source is None else source.key("preaggregation"))

    def missing_laws(self) -> Mapping[str, str]:
        """The laws that do not hold, and why."""
        return self.lacks

    def lowered(self, n: int, removed: int) -> "Rule":
        """The rule for the n updates that are left after `removed` others.

        f is lowered one by one, by at most `removed`, until the requirement holds.
        """
        f = self.declared_f()
        if f is None:
            return self
        for lower in range(min(removed, f) + 1):
            candidate = self.with_f(f - lower)
            if candidate.min_rows() <= n:
                break
        return candidate


def traced() -> bool:
    """Whether `torch.compile` is tracing this call. It cannot trace kernels, so the call is kept out of its graph."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def outside_graph(method: Callable[..., T]) -> Callable[..., T]:
    """A method that `torch.compile`, which is tracing now, calls as it is."""
    found: Callable[..., T] = sys.modules["torch"].compiler.disable(method)
    return found


def _reported(call: "_Round") -> Aggregation:
    update = call.run()
    return call.report(update)


class _Round:
    """One call: receive, draw and decide; if an update proves a fault, start again without it, with the same key."""

    def __init__(self, rule: Rule, updates: Any, request: Request) -> None:
        self.rule, self.request = rule, request
        self.arrival = arrival = receive(updates)
        n = arrival.n
        self.names = () if request.workers is None else request.names(n)
        if n < rule.min_rows():
            rule.check_rows(n)
        self.weighting = (
            None if request.weights is None else Weighting.of(rule, request.weights, request.cap, request.share, n)
        )
        self.plan = rule.plan(arrival, request, n)
        self.reference = None if request.reference is None else arrival.flatten(request.reference)
        # What changes with each fault: the rule, for fewer updates, and those that are left.
        self.decided, self.faults = self.plan.rule, dict(arrival.faults)
        self.point: Point | None = None
        self.updates = Updates.arrived(arrival, Call(self.plan.key, self.reference))

    def run(self) -> Any:
        """The aggregated update; None if the round is skipped."""
        while True:
            if self.faults:
                allowed = self._allowed()
                if self._too_many():
                    if self.request.on_fault == "skip":
                        self.decided = self.plan.rule
                        return None
                    declared = self.rule.declared_f()
                    fixed = self.rule if declared is None or declared > allowed else None
                    message = fault_message(self.faults, self.arrival.n, allowed, self.names, fixed)
                    raise FaultError(message, tuple(sorted(self.faults)))
                self.decided = self.plan.rule.lowered(self.updates.n, len(self.faults))
            if self.request.honest is not None:
                position = {row: k for k, row in enumerate(self.updates.received)}
                self.updates.call.honest = tuple(position[row] for row in self.request.honest if row in position)
            try:
                # An update at the edge of its type makes lengths overflow, which rules allow for. It is not worth a
                # warning; where warnings are errors, one worker could stop the server.
                with np.errstate(all="ignore"):
                    if self.weighting is None:
                        point = self.decided.decide(self.updates)
                    else:
                        point = self._decide_weighted(self.weighting)
                    result = self.updates.at(point)
            except Faulty as found:
                self.faults.update(dict.fromkeys(found.rows, found.reason))
                if not self._too_many():
                    left = [k for k, row in enumerate(self.updates.received) if row not in self.faults]
                    self.updates = self.updates.only(left)
                    self.updates.call = Call(self.plan.key, self.reference)  # the same randomness once more
                continue
            self.point = point
            return self.arrival.restore(result, self.updates.received)

    def _allowed(self) -> int:
        """How many faults are tolerated. At least one update has to be left."""
        return min(self.rule.tolerates(self.arrival.n), self.arrival.n - 1)

    def _too_many(self) -> bool:
        weighting = self.weighting
        if weighting is None or not weighting.stated:
            return len(self.faults) > self._allowed()
        left = self.arrival.n - len(self.faults)
        return left < 1 or float(weighting.mass[list(self.faults)].sum()) > weighting.faulty * (1 + 1e-9)

    def _decide_weighted(self, given: Weighting) -> Point:
        weighting, rule, updates = given.without(list(self.faults)), self.plan.rule, self.updates
        if weighting.total == 0.0:
            refuse("All updates that are left have the weight 0.")
        if weighting.even:
            return self.decided.decide(updates)
        rule.check_share(weighting.count, weighting.share)
        return rule.decide_weighted(updates, weighting)

    def report(self, update: Any) -> Aggregation:
        """The result with what happened. As much work as a small rule, so that a plain call leaves it out."""
        point, updates = self.point, self.updates
        names, n = self.names, self.arrival.n
        gone = tuple(Quarantined(row, names[row] if names else None, why) for row, why in sorted(self.faults.items()))
        if point is None:
            return Aggregation(None, self.decided, n, quarantined=gone, workers=names)
        facts = {**self.plan.facts, **point.facts}
        received, weights, distances = updates.received, None, None
        aim = point.updates.over_received(point.weights) if isinstance(point, Combination) else None
        if aim is not None:
            weights = _scattered(aim, point.updates.received, n, elsewhere=0.0)
            distances = updates.known_distances_to(aim) if point.updates.reader is updates.reader else None
        scores, selected = facts.pop("scores", None), facts.pop("selected", None)
        if selected is not None:
            selected = tuple(received[row] for row in selected)  # type: ignore[attr-defined]  # indices
        elif weights is not None:
            selected = tuple(weights.nonzero()[0].tolist())
        return Aggregation(
            update,
            self.decided,
            n,
            weights=weights,
            selected=selected,
            scores=_scattered(scores, received, n),
            distances=_scattered(distances, received, n),
            quarantined=gone,
            iterations=facts.pop("iterations", None),  # type: ignore[arg-type]  # a rule that iterates gives an int
            residual=facts.pop("residual", None),  # type: ignore[arg-type]  # and a float
            facts=facts,
            workers=names,
        )


def _scattered(scores: Any, received: tuple[int, ...], n: int, elsewhere: float = np.nan) -> "Floats | None":
    """Scores by received update, or None for scores of mixed updates, which belong to no single one."""
    if scores is None or len(scores) != len(received):
        return None
    if received == tuple(range(n)):
        return np.array(scores, np.float64)
    placed = np.full(n, elsewhere)
    placed[list(received)] = scores
    return placed
