"""`Memory`: a rule that decides from what each worker did over many rounds."""

import functools
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, Unpack, final

import numpy as np

from mixtailor._checks import check_count, check_fraction, listing, refuse
from mixtailor.intake import receive
from mixtailor.memory.history import History, Recall
from mixtailor.memory.keeping import Keeping
from mixtailor.memory.remembering import Remembering, check_combines
from mixtailor.mixing import MixTailor
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import Rule, outside_graph, traced
from mixtailor.rules.part import Asks
from mixtailor.rules.plain import as_rule, check_inner
from mixtailor.rules.request import Request, RequestKeywords
from mixtailor.updates import Point, Updates

__all__ = ["Memory"]

# A worker is suspected if, in most of about its last ten rounds, the filter took half of its weight or it sent copies.
_PATIENCE, _SUSPECTED = 0.9, 0.75


@final
@dataclass(frozen=True, repr=False)
class Memory(Keeping):
    r"""A rule that decides from this round's updates and from what each worker did before.

    In one round a patient attacker and an honest worker look alike. Over many they do not: honest deviations from the
    result average out, a steady push adds up. So the memory keeps, of each worker, running means of its deviations

    .. math:: m_i^{(a)} \leftarrow a \, m_i^{(a)} + (1 - a) \, S (y_i - U), \qquad
              y_i = \min\left(1, \frac{\mathrm{median}_j \lVert x_j \rVert}{\lVert x_i \rVert}\right) x_i

    as linear sketches S of a thousand numbers, and gives the rule views of the workers: the inner products of the
    present deviations, and those of the running means at each time scale a. One more running mean, with a decay of
    0.99, has signs that are drawn again each round: its inner products show who moves with whom, whatever the
    direction. It is of what is new in a deviation, its difference to :math:`\rho` times the last one, where
    :math:`\rho` is how much of a deviation is usually left in the next round: with momentum at the workers, honest
    deviations hardly change from one round to the next, and would seem to move together. The rule decides from these
    views alone, and its weights are applied to the clipped updates y of this round. No update is longer than the
    median, so one round cannot do much harm. Updates that are much closer together than is usual in this round (less
    than a quarter of the usual squared distance) share the weight of one, so that nobody gains by sending the same from
    several workers.

    A push that does harm goes against the training or with it. So the memory keeps a guide, the running mean of the
    results, and of each worker running means of how far its deviations go along the guide, over about two, five and
    twenty rounds. In one direction that is known beforehand, a push stands out that is lost among all others. Whatever
    the rule, workers that go much farther along the guide than the others, or less far, lose their weight, by the
    filter of `ViewFilter`.
    Cost O(nd), and what the rule does with n x n numbers.

    Parameters
    ----------
    rule : rule
        Any whose result is a weighted mean of the updates: `ViewFilter` looks at each view, all others see the
        distances of the view in which workers spread most, without that of who moves with whom. A `MixTailor` of such
        rules is drawn each round as ever.
    decays : tuple of float
        The time scales: 0.99 is about a hundred rounds, 0.9 about ten.
    size : int
        The numbers in a sketch. Inner products are right to about ``sqrt(2 / size)`` of the lengths.
    key : int, optional
        The secret of the sketches, 64 bits; by default drawn from the operating system.

    Examples
    --------
    A worker pushes in one direction by as much as the others vary. In the first round nobody can know.

    >>> from mixtailor import Memory, ViewFilter
    >>> random = np.random.default_rng(0)
    >>> memory = Memory(ViewFilter(f=1), key=1)
    >>> for round in range(40):
    ...     updates = random.normal(size=(6, 50))
    ...     updates[5] = 1.0
    ...     result = memory.aggregate(updates, workers=["ann", "bob", "cyn", "dan", "eve", "mal"])
    >>> memory.suspects()
    ['mal']
    >>> bool(result.weights[5] < 0.01)
    True

    Notes
    -----
    Workers are distinguished by the ``workers=`` of a call, and by their place without it; give names wherever workers
    come and go. What is known of a worker that is absent does not change. A newcomer has not deviated so far. It gains
    nothing by that, since whoever is quieter than the median counts as being at the median; it is judged by this
    round's updates. Byzantine workers that change their names every round are therefore judged by single rounds, as
    without a memory. An update that is aggregated again, as `Kept` of an `Inbox` does, counts once for `suspects`:
    counted in every call, honest workers that are slow were named.

    The state takes ``4 size`` bytes for each worker and running mean, and as much for its last deviation. Of more than
    65,536 workers, those that have been absent longest are forgotten, so that new names alone cannot fill the server's
    memory. `state`, `restore`, `save` and `load` keep it over restarts. It contains the key, so keep it as secret as
    the server's other secrets. One memory belongs to one training: updates of another length are refused. It learns
    when a call has succeeded, and two calls at once are made one after the other.

    The rule itself stays pure: it is given views, and keeps nothing.
    """

    decays: tuple[float, ...] = field(default=(0.99,), kw_only=True)
    size: int = field(default=1024, kw_only=True)
    key: int | None = field(default=None, kw_only=True, repr=False)
    _history: History = field(init=False, repr=False, compare=False)
    _suspicion: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    _warned: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _expected: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    _repeated: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    _drawn_from: Rule | None = field(default=None, init=False, repr=False, compare=False)  # of one of a pool's memories
    _mutex: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False, compare=False)

    lacks: ClassVar[Mapping[str, str]] = {"translation": "updates are clipped to a length from the origin"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", as_rule(self.rule))
        check_inner("Memory", self.rule)
        check_count("Memory", "size", self.size, 16)
        decays = tuple(self.decays) if isinstance(self.decays, Sequence) else ()
        if not decays or 1.0 in decays:  # with a decay of 1 nothing would ever be learnt
            refuse("Memory needs at least one decay, each below 1, such as decays=(0.99,).")
        for decay in decays:
            check_fraction("Memory", "decays", decay)
        key = secrets.randbits(64) if self.key is None else self.key
        if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < 1 << 64:
            refuse(f"Memory needs key as an integer of 64 bits and got {key!r}.")
        object.__setattr__(self, "decays", decays)
        object.__setattr__(self, "_history", History(key, decays, self.size))
        check_combines(self.rule)

    def __repr__(self) -> str:
        shown = [repr(self.rule)]
        shown += [f"decays={self.decays}"] if self.decays != (0.99,) else []
        shown += [f"size={self.size}"] if self.size != 1024 else []
        return f"Memory({', '.join(shown)})"

    def __reduce__(self) -> Any:
        return _unpickled, (type(self), self.rule, self.decays, self.size, self.state())

    def asks(self) -> Asks:
        return Asks()  # the rule's queries are answered by the views

    def decide(self, updates: Updates) -> Point:
        """What the result would be, with nothing learnt from it: for an attacker who tries updates on this memory.

        The updates are those of the workers that `expect` named, or of workers that are not known.
        """
        workers = self._expected if len(self._expected) == updates.n else [f"?{row}" for row in range(updates.n)]
        tolerated = None if self._drawn_from is None else self._drawn_from.tolerates(updates.n)
        return Remembering(self.rule, Recall(self._history, workers, suspects=False), tolerated).decide(updates)

    def expect(self, workers: Sequence[object]) -> None:
        """Whose updates `decide` will be given, in order."""
        self._expected[:] = [str(worker) for worker in workers]

    def repeated(self, workers: Sequence[object]) -> None:
        self._repeated.clear()
        self._repeated.update(str(worker) for worker in workers)

    def members(self, n: int) -> "tuple[tuple[Memory, ...], tuple[float, ...]]":
        """This memory around each rule that may be drawn when n updates arrive, and their probabilities."""
        if not isinstance(self.rule, MixTailor):
            return (self,), (1.0,)
        shares = self.rule.shares(n)
        kept = [place for place, share in enumerate(shares) if share > 0.0]
        return tuple(self._alternatives[place] for place in kept), tuple(shares[place] for place in kept)

    @functools.cached_property
    def _alternatives(self) -> "tuple[Memory, ...]":
        """This memory around each rule of its pool: made once, since a new memory tries its rule."""
        assert isinstance(self.rule, MixTailor)
        return tuple(self._around(rule) for rule in self.rule.rules)

    def _around(self, rule: Rule) -> "Memory":
        made = replace(self, rule=rule)
        object.__setattr__(made, "_history", self._history)
        object.__setattr__(made, "_expected", self._expected)
        object.__setattr__(made, "_drawn_from", self.rule)
        return made

    # What users call.

    def aggregate(self, updates: Any, **request: Unpack[RequestKeywords]) -> Aggregation:
        """The aggregated update, with what happened; the memory learns from it. Parameters are those of any rule."""
        if traced():
            return outside_graph(self.aggregate)(updates, **request)
        result = self.aggregate_within(lambda rule: rule, updates, **request)
        # A result is shown around, and the memory is not part of it.
        return replace(result, rule=result.rule.rule)

    def aggregate_within(
        self, around: Callable[[Rule], Rule], updates: Any, **request: Unpack[RequestKeywords]
    ) -> Aggregation:
        """As `aggregate`, with another rule around this call: `Guarded` holds the result to a length by it."""
        arrival = receive(updates)
        names = Request.of(request).names(arrival.n) or range(arrival.n)
        workers = [str(name) for name in names]
        if len(set(workers)) < len(workers):
            refuse("A memory needs workers= with a different name for each update.")
        with self._mutex:
            repeated = frozenset(self._repeated)
            self._repeated.clear()
            recall = Recall(self._history, workers)
            result = around(Remembering(self.rule, recall)).aggregate(arrival, **request)
            if result.update is not None:
                recall.commit()
                self._suspect(result, workers, repeated)
                for name in self._suspicion.keys() - self._history.means.keys():
                    del self._suspicion[name]
        return result

    def _suspect(self, result: Aggregation, workers: list[str], repeated: frozenset[str]) -> None:
        found = result.facts.get("suspects")
        if not isinstance(found, tuple):
            return
        hostile = {workers[row] for row in found}
        for name in (name for name in workers if name not in repeated):
            self._suspicion[name] = _PATIENCE * self._suspicion.get(name, 0.0) + (1 - _PATIENCE) * (name in hostile)
        suspects, f = [name for name in self.suspects() if name in workers], self.rule.tolerates(len(workers))
        if len(suspects) > f and not set(suspects) <= self._warned:
            self._warned.update(suspects)
            warnings.warn(
                f"{len(suspects)} workers look hostile ({listing(suspects)}), and f = {f}. Raise f, or look at them.",
                UserWarning,
                stacklevel=3,
            )

    def suspects(self) -> list[str]:
        """The workers that stood out, or sent copies, in most of their last rounds; most suspicious first.

        An estimate, for people to look at: nothing is decided by it. It assumes that fewer than half of the workers are
        Byzantine, whatever f was declared, and that honest workers draw from similar data. Of workers that send the
        same update all are named, also one that others have copied.
        """
        with self._mutex:
            order = sorted(self._suspicion, key=lambda name: -self._suspicion[name])
            return [name for name in order if self._suspicion[name] > _SUSPECTED]

    # State.

    def __iter__(self) -> Iterator[str]:
        """The workers that are remembered."""
        return iter(list(self._history.means))

    def rounds(self, worker: object) -> int:
        """In how many rounds a worker took part."""
        return self._history.rounds.get(str(worker), 0)

    def check_length(self, d: int) -> None:
        """Refuse a model of d coordinates if what is remembered is of another length."""
        self._history.check_length(d)

    def forget(self, worker: object) -> None:
        """Remove a worker that has left for good. If it comes back, it is a newcomer."""
        with self._mutex:
            self._history.forget(str(worker))
            self._suspicion.pop(str(worker), None)

    def fresh(self, key: int | None = None) -> Self:
        """The same with an empty memory, and with another secret."""
        return replace(self, key=key)

    def reset(self, key: int | None = None) -> None:
        """Forget everything, and take another secret."""
        self.restore(self.fresh(key).state())
        self._warned.clear()

    def state(self) -> dict[str, Any]:
        """All that is remembered, as arrays and plain values; `restore` takes it."""
        with self._mutex:  # another thread may be in the middle of a round
            return {**self._history.state(), "suspicion": dict(self._suspicion)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` gave."""
        if not isinstance(state, Mapping):
            refuse(f"A memory needs the state that another memory gave, and got {type(state).__name__}.")
        found = state.get("suspicion", {})
        try:
            suspicion = {str(name): float(value) for name, value in found.items()}
        except (AttributeError, TypeError, ValueError):
            suspicion = {"": np.nan}
        if not all(0.0 <= value <= 1.0 for value in suspicion.values()):
            refuse("The state of a memory is damaged: its suspicions are not numbers from 0 to 1 by name.")
        with self._mutex:
            self._history.restore(state)
            self._suspicion.clear()
            self._suspicion.update(suspicion)


def _unpickled(kind: type[Memory], rule: Rule, decays: tuple[float, ...], size: int, state: dict[str, Any]) -> Memory:
    made = kind(rule, decays=decays, size=size, key=int(state["key"]))
    made.restore(state)
    return made
