"""MixTailor: one rule a round, drawn after the updates arrived."""

import functools
import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

from mixtailor._checks import check_positive, check_rows, listing, plural, refuse, shown
from mixtailor.intake import Arrival
from mixtailor.mixing.audit import AuditTrail
from mixtailor.mixing.entropy import Entropy, SystemEntropy, weights_of
from mixtailor.rules.base import Plan, Rule, as_rule, check_inner
from mixtailor.rules.part import Part
from mixtailor.rules.request import KeySource, Request
from mixtailor.updates import Point, Updates

__all__ = ["MixTailor"]


@dataclass(frozen=True)
class MixTailor(Rule):
    r"""A rule drawn from a pool, anew each call, after the updates are in hand.

    .. math:: U = \mathrm{AGG}_m(x_1, \ldots, x_n) \quad \text{with probability } p_m

    Somebody who knows the pool, the updates and this code still does not know which rule the next round takes, so no
    attack can be tailored to it. Only the drawn rule is computed. Cost: the mean of the rules' costs.

    Parameters
    ----------
    rules : iterable of rules or callables
        The pool. Any callable on an (n, d) matrix joins it as it is.
    probabilities : sequence of float, optional
        One for each rule, with sum one; uniform by default.
    entropy : Entropy, optional
        Where the draw comes from: the operating system. `SeededEntropy` is for experiments only.
    audit : AuditTrail, optional
        Draws that can be checked afterwards; its pool must be this one. It takes the place of `entropy`.
    release_after : float, optional
        Seconds, more than the slowest rule takes. An answer, or an error, is released that long after the call began,
        whichever rule was drawn; after twice, three times that long where it was not enough, with a warning.

    Examples
    --------
    >>> from mixtailor import Comed, GeometricMedian, Krum, MixTailor
    >>> rule = MixTailor([Krum(f=1), Comed(), GeometricMedian()])
    >>> result = rule.aggregate(np.array([[1.0, 2.0], [1.1, 2.0], [0.9, 2.1], [1.0, 1.9], [9e9, 0.0]]))
    >>> result.rule in rule.rules
    True

    Notes
    -----
    n is known only at the call: what n and f forbid leaves the pool for that call, by the number of rows *received*,
    with a warning once for each n; the others keep their proportions. No rule leaves because of what arrived, or an
    attacker could choose the pool. All members withstand what the weakest of them withstands.

    Rules differ in speed, so that the moment at which an answer comes tells whoever waits for it something about the
    rule that was drawn. That is past knowledge, the next draw does not depend on it; where even that must not be told,
    `release_after` makes the moment the same for all. ``docs/security.md`` has what was measured.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022.
    """

    rules: tuple[Rule, ...]
    probabilities: tuple[float, ...] | None = None
    entropy: Entropy = field(default_factory=SystemEntropy)
    audit: AuditTrail | None = field(default=None, kw_only=True, compare=False)
    release_after: float | None = field(default=None, kw_only=True)
    _warned: set[int] = field(default_factory=set, init=False, repr=False, compare=False)
    _pools: "dict[int, _Left]" = field(default_factory=dict, init=False, repr=False, compare=False)

    requirement: ClassVar[str] = "what the least demanding rule of the pool needs"
    cost: ClassVar[str] = "the mean of its rules'"

    def __init__(
        self,
        rules: "Iterable[Rule | Callable[[Any], Any]]",
        probabilities: Iterable[float] | None = None,
        entropy: Entropy | None = None,
        *,
        audit: AuditTrail | None = None,
        release_after: float | None = None,
    ) -> None:
        if not isinstance(rules, Iterable):
            raise TypeError(f"MixTailor needs a list of rules and got {type(rules).__name__}.")
        members = tuple(as_rule(rule) for rule in rules)
        for member in members:
            check_inner("MixTailor", member)
        if not members:
            refuse("MixTailor needs a pool of at least one rule and got an empty one.")
        shares = None if probabilities is None else tuple(float(share) for share in probabilities)
        weights_of(shares, len(members))
        if entropy is not None and not isinstance(entropy, Entropy):
            raise TypeError(
                f"MixTailor needs entropy= as a mixtailor.Entropy and got {type(entropy).__name__}. "
                "Leave it out for the operating system's, or give SeededEntropy(seed) in an experiment."
            )
        if audit is not None and entropy is not None:
            refuse("MixTailor takes entropy= or audit=, not both: an audited draw comes from the trail's own secret.")
        if release_after is not None:
            check_positive("MixTailor", "release_after", release_after)
        settled: dict[str, Any] = {
            "rules": members,
            "probabilities": shares,
            "entropy": entropy or SystemEntropy(),
            "audit": audit,
            "release_after": release_after,
            "_warned": set(),
            "_pools": {},
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    # Parts.

    def with_parts(self, parts: Sequence[Part], **changes: Any) -> Self:
        given: dict[str, Any] = {
            "probabilities": self.probabilities,
            "entropy": None if self.audit is not None else self.entropy,  # a trail has its own
            "audit": self.audit,
            "release_after": self.release_after,
        }
        rules = [as_rule(part) for part in parts]
        return type(self)(rules, **{**given, **changes})

    def declared_f(self) -> int | None:
        declared = [f for f in (rule.declared_f() for rule in self.rules) if f is not None]
        return min(declared, default=None)

    @functools.cached_property
    def _needed(self) -> tuple[int, ...]:
        """The rows that each rule needs."""
        return tuple(rule.min_rows() for rule in self.rules)

    def min_rows(self) -> int:
        return min(self._needed)

    def tolerates(self, n: int) -> int:
        return self._at(n).tolerates

    def missing_laws(self) -> Mapping[str, str]:
        return {law: why for rule in self.rules for law, why in rule.missing_laws().items()}

    def kappa(self, n: int, f: int, d: int) -> float | None:
        """The largest of its rules', since any of them may be drawn."""
        known = [rule.kappa(n, f, d) for rule in self.rules if rule.min_rows() <= n]
        finite = [kappa for kappa in known if kappa is not None]
        return max(finite) if finite and len(finite) == len(known) else None

    # The draw.

    def admissible(self, n: int) -> tuple[int, ...]:
        """The rules, by their place in the pool, whose requirement n rows meet."""
        return self._at(n).places

    def shares(self, n: int) -> tuple[float, ...]:
        """The probability of each rule of the pool when n rows are received."""
        left = set(self.admissible(n))
        given = self.probabilities or (1.0,) * len(self.rules)
        kept = [share if place in left else 0.0 for place, share in enumerate(given)]
        total = sum(kept)
        if total == 0.0:
            check_rows(self, self.requirement, self.min_rows(), n)
            refuse(f"No rule that {plural(n, 'row')} allow has a probability above zero.")
        return tuple(share / total for share in kept)

    def _at(self, n: int) -> "_Left":
        """What n rows leave of the pool: a matter of every rule, and the same at every call."""
        if n not in self._pools:
            places = tuple(place for place, least in enumerate(self._needed) if least <= n)
            self._pools[n] = _Left(places, min((self.rules[place].tolerates(n) for place in places), default=0))
        return self._pools[n]

    def plan(self, arrival: Arrival, request: Request, n: int, key: bytes | None = None) -> Plan:
        self._warn(n)
        if self.audit is not None:
            digests = _digests(arrival, request.names(arrival.n))
            draw = self.audit.draw(digests, round=request.round, pool=self.rules, probabilities=self.probabilities)
            place, key = draw.index, draw.key
            facts: dict[str, object] = {"place": place, "round": draw.round, "retry": draw.retry}
            self.rules[place].check_rows(n)
        else:
            source = self._source(request, key)
            left = self.admissible(n)
            # Uniform over what is left stays exactly uniform: a third is no float.
            shares = None if self.probabilities is None and left else self.shares(n)
            given = None if shares is None else [shares[k] for k in left]
            place = left[source.index(given, len(left))]
            key = source.key("preaggregation")
            facts = {"place": place}
        plan = self.rules[place].plan(arrival, request, n, key)
        return Plan(plan.rule, plan.key, {**facts, **plan.facts})

    def _source(self, request: Request, key: bytes | None) -> Entropy:
        """Where this draw comes from: a draw further out, the call, or the source that this pool was given."""
        if key is not None:
            return _Borrowed(_Key(key))
        return self.entropy if request.entropy is None else _Borrowed(request.entropy)

    def _warn(self, n: int) -> None:
        left = self.admissible(n)
        if n in self._warned or len(left) == len(self.rules):
            return
        self._warned.add(n)
        out = [rule for place, rule in enumerate(self.rules) if place not in left]
        kinds = dict.fromkeys(f"{type(rule).__name__} ({rule.needs()})" for rule in out)
        warnings.warn(
            f"{len(out)} of {len(self.rules)} rules leave the pool at n = {n}: {listing(kinds)}. "
            "Lower f, or wait for more workers, to draw from all.",
            UserWarning,
            stacklevel=5,
        )

    def decide(self, updates: Updates) -> Point:
        """Draw from the call's randomness: for a MixTailor inside another rule. `aggregate` draws before that."""
        left = self.admissible(updates.n)
        shares = self.shares(updates.n)
        place = updates.random.choice(len(left), p=[shares[k] for k in left])
        rule = self.rules[left[int(place)]]
        point = rule.decide(updates)
        return point.with_facts(**point.facts, drawn=repr(rule))

    def __repr__(self) -> str:
        shown = [repr(rule) for rule in self.rules]
        pool = f"[{', '.join(shown)}]" if len(shown) <= 6 else f"<pool of {len(shown)} rules>"
        parts = [pool]
        if self.probabilities is not None:
            parts.append(f"probabilities={list(self.probabilities)}" if len(shown) <= 6 else "probabilities=...")
        if self.audit is not None:
            parts.append("audit=...")
        elif self.entropy != SystemEntropy():
            parts.append(f"entropy={self.entropy!r}")
        if self.release_after is not None:
            parts.append(f"release_after={self.release_after:g}")
        return f"MixTailor({', '.join(parts)})"


class _Left(NamedTuple):
    """What a number of rows leaves of a pool."""

    places: tuple[int, ...]
    tolerates: int


class _Borrowed(Entropy):
    """Draws from the source that came with the call."""

    def __init__(self, source: KeySource) -> None:
        self.source = source

    def key(self, purpose: str) -> bytes:
        return bytes(self.source.key(purpose))


@dataclass(frozen=True)
class _Key:
    """The key that was settled with the draw, for what the drawn rule does with randomness."""

    value: bytes

    def key(self, purpose: str) -> bytes:
        return self.value


def _digests(arrival: Arrival, names: Sequence[object]) -> dict[str, bytes]:
    """The digest of every received row by worker; a row that is no update at all, by what is wrong with it."""
    label = {row: shown(names[row]) if names else str(row) for row in range(arrival.n)}
    if len(set(label.values())) < arrival.n:
        refuse("An audited draw needs workers= with a different name for each update.")
    digests = {label[row]: digest for row, digest in zip(arrival.received, arrival.digests(), strict=True)}
    for row, why in arrival.faults.items():
        digests[label[row]] = hashlib.sha256(f"faulty: {shown(why)}".encode()).digest()
    return digests
