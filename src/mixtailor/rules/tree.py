"""A rule on the results of rules."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.rules.base import Plan, Rule
from mixtailor.rules.part import Asks
from mixtailor.rules.plain import as_rule, check_inner
from mixtailor.updates import Point, Updates

if TYPE_CHECKING:
    from mixtailor.intake import Arrival
    from mixtailor.rules.request import Request

__all__ = ["Tree"]

_LARGEST = 1 << 20  # updates in a branch


class Shares(NamedTuple):
    """What each level of a tree has to tolerate: faults in a branch, and branches with more faults than that."""

    inner: int
    outer: int


@dataclasses.dataclass(frozen=True)
class Tree(Rule):
    r"""The updates in branches, drawn at random; one rule on each branch, and another on the results of the branches.

    .. math:: R = R_{out}(y_1, \ldots, y_m), \qquad y_j = R_{in}(x_i : i \in B_j)

    The branches :math:`B_j` differ in size by at most one. With an inner rule that compares all pairs, it costs
    O(n^2 d / m + m^2 d) in place of O(n^2 d), least at about :math:`m = n^{2/3}` branches.

    The f of both rules follows from the declared f. An inner rule that tolerates b faults fails in at most
    :math:`g = \lfloor f / (b + 1) \rfloor` branches, however the faults are distributed, and the outer rule has to
    tolerate these g. Of all b that both rules allow, the tree uses the one that minimises the larger of the two shares:
    b of the smallest branch, and g of m.

    Needs a b that both rules allow. Cost: that of the inner rule on each branch, and of the outer rule on m results.

    Parameters
    ----------
    branches : int
        The number of branches, m.
    inner : Rule
        The rule on each branch. An f that it declares is that of all updates.
    outer : Rule
        The rule on the results of the branches; an f is that of all updates, too.

    Examples
    --------
    One hundred updates of which six may be Byzantine, in ten branches. Each branch tolerates two of its ten updates, so
    that at most two branches fail.

    >>> from mixtailor import Comed, Krum
    >>> rule = Tree(10, Krum(f=6), Comed())
    >>> rule.shares(100)
    Shares(inner=2, outer=2)
    >>> updates = np.concatenate([np.ones((94, 3)), np.full((6, 3), 9e9)])
    >>> rule(updates)
    array([1., 1., 1.])

    Notes
    -----
    **Guarantee** (ours). Let :math:`\kappa_{in}` be the inner rule's coefficient on a branch at b, :math:`\kappa_{out}`
    the outer rule's on m results at g, and s the size of the smallest branch. Then

    .. math:: \lVert R - \bar x \rVert^2 \le (1 + \kappa_{in})(1 + \kappa_{out}) \frac{n - f}{(m - g)(s - b)} \sigma^2

    for the mean :math:`\bar x` and the variance :math:`\sigma^2` of any n - f honest updates. Proof: of a branch that
    does not fail, let :math:`\delta_j` be the mean of its honest updates less :math:`\bar x`, and :math:`\sigma_j^2`
    their variance. Its result is at :math:`u_j` from :math:`\bar x` with
    :math:`|u_j|^2 \le (1 + \kappa_{in})(\sigma_j^2 + |\delta_j|^2)`, as
    :math:`|a + b|^2 \le (1 + t)|a|^2 + (1 + 1/t)|b|^2` with :math:`t = 1/\kappa_{in}`. Each of these branches has at
    least s - b honest updates, and all honest updates together have a sum of squares of :math:`(n - f) \sigma^2`, so
    that the mean M of the :math:`|u_j|^2` over at least m - g branches is at most
    :math:`(1 + \kappa_{in}) \frac{n - f}{(m - g)(s - b)} \sigma^2`. The outer result is as near to the mean of the
    :math:`u_j` as :math:`\kappa_{out}` times their variance; by the same inequality, it is within
    :math:`(1 + \kappa_{out}) M` of zero.

    So a tree has disadvantages: its bound is above one however small f is, and it tolerates about n/4 faults, where one
    rule tolerates n/2. Use it if O(n^2 d) is too slow, which is rarely so for n up to a thousand.

    The branches are drawn from the secret randomness of the call, after the updates arrived. The guarantee does not
    need that. But an attacker with more than the tolerated number of faults who knew the branches could place them so
    that g + 1 branches fail; without this knowledge, it depends on the draw.

    References
    ----------
    .. [1] Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by Mixing: A Recipe for Optimal Byzantine ML
       under Heterogeneity", AISTATS 2023, for the definition of the coefficient.
    """

    branches: int
    inner: Rule
    outer: Rule
    _known: dict[tuple[int, int], Shares | None] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    requirement: ClassVar[str] = "n so large that branches and results tolerate their shares of f"
    cost: ClassVar[str] = "that of the inner rule on each branch, and of the outer one on the results"
    kappa_is_ours: ClassVar[bool] = True
    coefficient: ClassVar[str] = "(1 + kappa_in)(1 + kappa_out)(n - f)/((m - g)(s - b))"
    tolerated: ClassVar[str] = "(b + 1)(g + 1) - 1, where a branch tolerates b, and the outer rule g"

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", as_rule(self.inner))
        object.__setattr__(self, "outer", as_rule(self.outer))
        check_count("Tree", "branches", self.branches, 2)
        declared = {part.declared_f() for part in (self.inner, self.outer)} - {None}
        if len(declared) > 1:
            refuse(
                f"Tree needs one f, that of all updates, and got {self.inner!r} and {self.outer!r}. "
                "What each has to tolerate follows from it."
            )
        for part in (self.inner, self.outer):
            check_inner("the tree", part)
        least = self.outer.with_f(0).min_rows()
        if self.branches < least:
            refuse(
                f"Tree needs at least {least} branches for {self.outer!r} ({self.outer.needs()}), even if none of them "
                f"fails, and got {self.branches}."
            )

    def shares(self, n: int) -> Shares:
        """How many faults each branch of n updates tolerates, and how many branches may fail."""
        found = self._shares(n // self.branches, self.tolerates(n))
        if found is None:
            self.check_rows(n)
            refuse(f"{self!r} tolerates its f for no division of it.")
        return found

    def _shares(self, size: int, f: int) -> Shares | None:
        """For the size of the smallest branch; None where no b is allowed."""
        if (size, f) not in self._known:
            allowed = [
                Shares(b, f // (b + 1))
                for b in range(min(f, size) + 1)
                if _tolerates(self.inner, size, b) and _tolerates(self.outer, self.branches, f // (b + 1))
            ]
            self._known[size, f] = min(
                allowed, key=lambda s: max(s.inner / max(1, size), s.outer / self.branches), default=None
            )
        return self._known[size, f]

    def min_rows(self) -> int:
        f, low, high = self.declared_f() or 0, 1, 1
        while self._shares(high, f) is None:
            low, high = high + 1, high * 2
            if high > _LARGEST:
                refuse(f"{self!r} tolerates f = {f} for no n ({self.needs()}). Lower f, or take more branches.")
        while low < high:  # what a branch tolerates never gets less as it grows
            middle = (low + high) // 2
            low, high = (low, middle) if self._shares(middle, f) is not None else (middle + 1, high)
        return max(low * self.branches, f + self._least())

    def _least(self) -> int:
        """How many updates the branches need when none is Byzantine; a quarantine must leave that many."""
        return self.branches * self.inner.with_f(0).min_rows()

    def needs(self) -> str:
        return f"{self.branches} branches for {self.inner.requirement}, and {self.outer.requirement} of their results"

    def tolerates(self, n: int) -> int:
        f = self.declared_f()
        if f is not None:
            return f
        size = n // self.branches
        inner = self.inner.tolerates(size) if self.inner.robust else 0
        outer = self.outer.tolerates(self.branches) if self.outer.robust else 0
        most = min((inner + 1) * (outer + 1) - 1, max(0, n - self._least()))
        return most if self._shares(size, most) is not None else 0

    @property
    def robust(self) -> bool:
        return self.inner.robust or self.outer.robust

    @property
    def reads_all(self) -> bool:  # type: ignore[override]  # as its parts do
        """Whether it reads every coordinate of every update: as its inner rule does."""
        return self.inner.reads_all

    def kappa(self, n: int, f: int, d: int) -> float | None:
        size = n // self.branches
        found = self._shares(size, f)
        if found is None:
            return None
        b, g = found
        inner = [self.inner.with_f(b).kappa(rows, b, d) for rows in {size, -(-n // self.branches)}]
        outer = self.outer.with_f(g).kappa(self.branches, g, d)
        if outer is None or any(each is None for each in inner):
            return None
        worst = max(each for each in inner if each is not None)
        return (1 + worst) * (1 + outer) * (n - f) / ((self.branches - g) * (size - b))

    def asks(self) -> Asks:
        return Asks(reference=super().asks().reference)  # no branch needs distances to another

    def missing_laws(self) -> Mapping[str, str]:
        return {**self.inner.missing_laws(), **self.outer.missing_laws()}

    def plan(self, arrival: "Arrival", request: "Request", n: int, key: bytes | None = None) -> Plan:
        inner = self.inner.plan(arrival, request, n // self.branches, key)
        outer = self.outer.plan(arrival, request, self.branches, bytes(inner.key))
        rule = self
        if inner.rule is not self.inner or outer.rule is not self.outer:
            rule = Tree(self.branches, inner.rule, outer.rule)
        return Plan(rule, inner.key, {**inner.facts, **outer.facts})

    def decide(self, updates: Updates) -> Point:
        b, g = self.shares(updates.n)
        members = [np.sort(part) for part in np.array_split(updates.random.permutation(updates.n), self.branches)]
        inner = self.inner.with_f(b)
        results = updates.rows_of([self._branch(inner, updates, rows) for rows in members], members)
        point = self.outer.with_f(g).decide(results)
        facts = {name: value for name, value in point.facts.items() if name not in ("scores", "selected")}
        branches = tuple(tuple(int(updates.received[row]) for row in rows) for rows in members)
        return point.with_facts(**facts, branches=branches, tolerated_in_a_branch=b, tolerated_branches=g)

    @staticmethod
    def _branch(rule: Rule, updates: Updates, rows: "np.ndarray[tuple[int], np.dtype[np.intp]]") -> Point:
        branch = updates.take(rows)
        point = rule.decide(branch)
        if not branch.basis.known_lengths():  # else a pass has read all of its rows
            branch.reader.examine()
        return point


def _tolerates(rule: Rule, n: int, f: int) -> bool:
    """Whether a rule tolerates f faults of n rows."""
    if f and not rule.robust:
        return False
    with_f = rule.with_f(f)
    return with_f.min_rows() <= n and f <= with_f.tolerates(n)
