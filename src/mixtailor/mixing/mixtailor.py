"""MixTailor: one rule a round, drawn after the updates arrived."""

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Never, Self

from mixtailor._checks import NotRobustWarning, check_positive, listing, plural, refuse, shown
from mixtailor.intake import Arrival
from mixtailor.mixing.audit import AuditTrail
from mixtailor.mixing.entropy import Entropy, SystemEntropy, weights_of
from mixtailor.rules.base import Plan, Rule
from mixtailor.rules.part import Part, walk
from mixtailor.rules.plain import as_rule, check_inner
from mixtailor.rules.promises import NEVER, check_tolerates, formula_of, rows_for
from mixtailor.rules.request import KeySource, Request
from mixtailor.updates import Point, Updates

__all__ = ["MixTailor", "warn_not_robust"]


@dataclass(frozen=True)
class MixTailor(Rule):
    r"""A rule drawn from a pool, once per call, after the updates have arrived.

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
        Seconds, more than the slowest rule takes. A result, or an error, is released that long after the call began,
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
    The pool is what was declared, in every call: no rule leaves it because of what arrived or because of who stayed
    silent, or an attacker could choose the pool. A call with fewer updates than its most demanding rule needs is an
    error. Leave out such rules when the pool is made: ``paper_pool(f, n=12)``.

    The f of a pool is the least that its rules declare. A rule that takes no f (`Comed`, `GeometricMedian`) is held to
    it as well: it needs as many updates as it takes to tolerate f, ``n >= 2f + 1`` for these two.

    A pool with a rule that has no bound, such as `Mean` or ``Bulyan(f, then=Mean())``, is warned of once in a process
    (`mixtailor.NotRobustWarning`). Where it is there on purpose, as in the paper's pool, silence that warning by its
    class.

    Rules differ in speed, so that the moment at which a result comes says something, to whoever waits for it, about the
    rule that was drawn. That is past knowledge, the next draw does not depend on it; where even that must stay secret,
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

    requirement: ClassVar[str] = "what the most demanding rule of the pool needs"
    cost: ClassVar[str] = "the mean of its rules'"

    def __init__(
        self,
        rules: "Iterable[Rule | Callable[[Any], Any]]" = (),
        probabilities: Iterable[float] | None = None,
        entropy: Entropy | None = None,
        *,
        audit: AuditTrail | None = None,
        release_after: float | None = None,
        **unknown: Never,
    ) -> None:
        if "seed" in unknown:
            raise TypeError(
                "MixTailor takes no seed=: its draw must not be predictable. In an experiment, write "
                "MixTailor(rules, entropy=SeededEntropy(seed))."
            )
        if unknown:
            raise TypeError(
                f"MixTailor takes no parameter {next(iter(unknown))!r}. It takes rules, which have an f each: write "
                "MixTailor(default_pool(f=2)), with your f."
            )
        if isinstance(rules, str):
            raise TypeError(
                f"MixTailor needs a list of rules and got the text {rules!r}. Write make_rule({rules!r}, f=2), with "
                "your f, or MixTailor(default_pool(f=2))."
            )
        if not isinstance(rules, Iterable):
            raise TypeError(
                f"MixTailor needs a list of rules and got {type(rules).__name__}. Write MixTailor(default_pool(f=2)), "
                "with your f, or rules in brackets: MixTailor([...])."
            )
        members = tuple(as_rule(rule) for rule in rules)
        for member in members:
            check_inner("MixTailor", member)
        if not members:
            refuse(
                "MixTailor needs a pool of at least one rule and got an empty one. Write MixTailor(default_pool(f=2))."
            )
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
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        warn_not_robust(self)

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
        """The updates that each rule needs; of one that takes no f, to tolerate that of the pool."""
        f = self.declared_f() or 0
        return tuple(
            rows_for(rule, f) if rule.robust and rule.declared_f() is None else rule.min_rows() for rule in self.rules
        )

    @functools.cached_property
    def _most_needed(self) -> int:
        return max(self._needed)

    def min_rows(self) -> int:
        return self._most_needed

    def needs(self) -> str:
        rule = self.rules[self._needed.index(self._most_needed)]
        f = self.declared_f() or 0
        same = rule.min_rows() == self._most_needed
        return f"{rule.needs() if same else formula_of(self._most_needed, f)}, for {rule!r}"

    def check_rows(self, n: int) -> None:
        if self._most_needed == NEVER:
            rule = self.rules[self._needed.index(NEVER)]
            check_tolerates(rule, self.declared_f() or 0, n)
        if n < self._most_needed:
            refuse(
                f"{self!r} needs at least {plural(self._most_needed, 'row')} ({self.needs()}) and got {n}. "
                "Lower f, wait for more workers, or leave such rules out when the pool is made."
            )

    def tolerates(self, n: int) -> int:
        return min(rule.tolerates(n) for rule in self.rules)

    @property
    def robust(self) -> bool:
        return all(rule.robust for rule in self.rules)

    def fitting(self, n: int) -> "MixTailor":
        """This pool without the rules that n updates forbid; the others keep their proportions.

        n is the number of updates that every round will have, settled before the first: with the number of those that
        came, whoever stays silent would choose the pool. A pool of which nothing would be left stays as it is, to say
        so when it is called.

        Examples
        --------
        >>> from mixtailor import Bulyan, Krum, MixTailor
        >>> MixTailor([Krum(f=2), Bulyan(f=2)]).fitting(10)
        MixTailor([Krum(f=2)])
        """
        given = self.probabilities or (1.0,) * len(self.rules)
        kept = [place for place, least in enumerate(self._needed) if least <= n]
        total = sum(given[place] for place in kept)
        if total == 0.0 or len(kept) == len(self.rules):
            return self
        shares = None if self.probabilities is None else tuple(given[place] / total for place in kept)
        return self.with_parts([self.rules[place] for place in kept], probabilities=shares)

    def missing_laws(self) -> Mapping[str, str]:
        return {law: why for rule in self.rules for law, why in rule.missing_laws().items()}

    def kappa(self, n: int, f: int, d: int) -> float | None:
        """The largest of its rules', since any of them may be drawn."""
        known = [rule.kappa(n, f, d) for rule in self.rules]
        finite = [kappa for kappa in known if kappa is not None]
        return max(finite) if finite and len(finite) == len(known) else None

    # The draw.

    def takes_weights(self) -> bool:
        return True  # where its rules do, which are asked one by one

    def shares(self, n: int) -> tuple[float, ...]:
        """The probability of each rule of the pool, where n updates are enough for all of them."""
        self.check_rows(n)
        return self.probabilities or (1.0 / len(self.rules),) * len(self.rules)

    def plan(self, arrival: Arrival, request: Request, n: int, key: bytes | None = None) -> Plan:
        self.check_rows(n)
        if self.audit is not None:
            digests = _digests(arrival, request.names(arrival.n))
            draw = self.audit.draw(digests, round=request.round, pool=self.rules, probabilities=self.probabilities)
            place, key = draw.index, draw.key
            facts: dict[str, object] = {"place": place, "round": draw.round, "retry": draw.retry}
        else:
            source = self._source(request, key)
            place = source.index(self.probabilities, len(self.rules))
            key = source.key("preaggregation")
            facts = {"place": place}
        plan = self.rules[place].plan(arrival, request, n, key)
        return Plan(plan.rule, plan.key, {**facts, **plan.facts})

    def _source(self, request: Request, key: bytes | None) -> Entropy:
        """Where this draw comes from: a draw further out, the call, or the source that this pool was given."""
        if key is not None:
            return _Borrowed(_Key(key))
        return self.entropy if request.entropy is None else _Borrowed(request.entropy)

    def decide(self, updates: Updates) -> Point:
        """Draw from the call's randomness: for a MixTailor inside another rule. `aggregate` draws before that."""
        rule = self.rules[int(updates.random.choice(len(self.rules), p=self.probabilities))]
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


_told: set[frozenset[tuple[str, ...]]] = set()


def _pools(rule: Rule) -> list[MixTailor]:
    return [part for part in walk(rule) if isinstance(part, MixTailor)]


def warn_not_robust(rule: Rule) -> None:
    """Warn if a rule, or a rule of a pool in it, has no bound: once in a process for rules of the same kinds.

    A pool warns when it is made. Whoever takes any rule, as an engine does, calls this for the others.
    """
    pools = _pools(rule)
    members = [one for pool in pools for one in pool.rules if not _pools(one)]
    weak = [one for one in (members if pools else [rule]) if not one.robust]
    kinds = frozenset(tuple(type(part).__name__ for part in walk(one)) for one in weak)
    if not weak or kinds in _told:
        return
    _told.add(kinds)
    names = listing(dict.fromkeys(map(repr, weak)), 4)
    whose = "has" if len(weak) == 1 else "have"
    where = f"{len(weak)} of {plural(len(members), 'rule')} of this pool {whose}" if pools else "This rule has"
    warnings.warn(
        f"{where} no bound, Byzantine updates can move the result as far as they like: {names}. Use default_pool(f), "
        "or leave them out. If they are there on purpose, ignore mixtailor.NotRobustWarning.",
        NotRobustWarning,
        stacklevel=3,
    )


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


def _digests(arrival: Arrival, names: Sequence[object]) -> dict[str, bytes | None]:
    """The digest of what each worker sent, faulty updates included; None for a worker that sent nothing."""
    words = [str(name) for name in names] if names else [str(row) for row in range(arrival.n)]
    if len(set(words)) < arrival.n:
        refuse("An audited draw needs workers= with a different name for each update.")
    labels = _labels(words)
    return dict(zip((labels[word] for word in words), arrival.digests(), strict=True))


def _labels(names: Sequence[str]) -> dict[str, str]:
    """The name of each worker in the log: its own if that is printable, else the name with escapes.

    Where somebody else has such a name as its own, backslashes are added: two workers must not share one, or they
    could stop every round by it.
    """
    labels = {name: name for name in names if name.isprintable()}
    taken = set(labels)
    for name in sorted(set(names) - taken):
        label = shown(name)
        while label in taken:
            label += "\\"
        labels[name] = label
        taken.add(label)
    return labels
