"""A rule that decides from sketches."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from mixtailor._checks import check_count, refuse
from mixtailor.rules._numbers import COMBINING
from mixtailor.rules.base import Plan, Rule
from mixtailor.rules.part import Asks
from mixtailor.rules.plain import as_rule, check_inner
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Call, Combination, Point, Updates

if TYPE_CHECKING:
    from mixtailor.intake import Arrival
    from mixtailor.rules.request import Request

__all__ = ["Sketched"]


@dataclasses.dataclass(frozen=True)
class Sketched(Rule):
    r"""A rule that decides from sketches of k numbers each; its weights are applied to the updates themselves.

    .. math:: R(x) = \sum_i w_i x_i, \qquad w = \text{the weights of the rule on } S x_1, \ldots, S x_n

    S adds each coordinate, with a random sign, to one of k buckets. So distances between updates cost O(n^2 k) after
    one reading, in place of O(n^2 d). For rules that compute weights from distances or inner products, in the Euclidean
    norm: Krum, Multi-Krum, CAF, the geometric median and others, and NNM before them.

    Needs what the rule needs. Cost O(n d), and that of the rule on k coordinates.

    Parameters
    ----------
    rule : Rule
        The rule that computes the weights.
    sketch : int
        The size of a sketch, k.

    Examples
    --------
    >>> from mixtailor import Krum
    >>> updates = np.random.default_rng(0).normal(size=(9, 100_000))
    >>> updates[8] += 1.0
    >>> result = Sketched(Krum(f=1), sketch=1024).aggregate(updates)
    >>> result.selected[0] < 8
    True

    Notes
    -----
    **The error of a distance.** A squared distance has the right expectation over the draw of S, and a standard
    deviation of at most :math:`\sqrt{2/k}` of itself, whatever the updates contain, as long as they were made without
    knowledge of S. S is drawn from the secret randomness of the call, after the updates arrived. By Chebyshev's
    inequality all :math:`n(n-1)/2` of them are right to a share of :math:`\varepsilon = \sqrt{n (n - 1) / (k \delta)}`
    with probability :math:`1 - \delta`. This is far above measured errors, since it covers updates that have all their
    length in a few coordinates; where the length is spread out, the largest error of all pairs is about
    :math:`\sqrt{2/k} \sqrt{4 \ln n}`.

    **What it does to the guarantee** (ours). Let all squared distances be right to a share of
    :math:`\varepsilon < 1`, and let the rule have the coefficient :math:`\kappa`. Then for weights that are not
    negative and have the sum one

    .. math:: \lVert R - \bar x \rVert^2 \le \Big( (1 + \kappa) \frac{1 + \varepsilon}{1 - \varepsilon} - 1 \Big)
        \sigma^2 + \frac{2 \varepsilon}{1 - \varepsilon^2} B

    for the mean and the variance of any n - f honest updates, where
    :math:`B = \frac{1}{2} \sum_{ij} w_i w_j |S x_i - S x_j|^2` is the spread of what was combined. It is zero for a
    rule that selects one update, and the report has it as ``facts["spread"]``. Proof: with squared distances
    :math:`D_{ij}`, the error is :math:`A - B' - \sigma^2`, where :math:`A = \sum_i w_i \text{mean}_{j} D_{ij}` over the
    honest j, and :math:`B' = \frac{1}{2} \sum_{ij} w_i w_j D_{ij}`. The same holds for the sketches, with
    :math:`\tilde A - B - \tilde\sigma^2 \le \kappa \tilde\sigma^2`. Now :math:`A \le \tilde A / (1 - \varepsilon)`,
    :math:`B' \ge B / (1 + \varepsilon)` and :math:`\tilde\sigma^2 \le (1 + \varepsilon) \sigma^2`.

    References
    ----------
    .. [1] Charikar, Chen, Farach-Colton, "Finding Frequent Items in Data Streams", ICALP 2002.
    """

    rule: Rule
    sketch: int

    requirement: ClassVar[str] = "what the rule needs"
    cost: ClassVar[str] = "O(n d), and that of the rule on k coordinates"
    coefficient: ClassVar[str] = "(1 + kappa)(1 + eps)/(1 - eps) - 1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", as_rule(self.rule))
        check_count("Sketched", "sketch", self.sketch, 2)
        check_inner("the sketch", self.rule)
        asked = self.rule.asks()
        others = sorted(asked.norms - {2.0})
        if others:
            refuse(f"Sketches have Euclidean distances only, and {self.rule!r} asks for the norm {others[0]:g}.")
        if asked.reference == "trusted":
            refuse(f"{self.rule!r} needs a vector to trust, of which there is no sketch. {COMBINING}")

    @property
    def deviation(self) -> float:
        """The standard deviation of a squared distance, at most, as a share of it."""
        return math.sqrt(2.0 / self.sketch)

    def kappa_at(self, error: float, n: int, f: int, d: int) -> float | None:
        """The coefficient where all squared distances are right to a share of `error`, if the rule selects one update.

        Other rules have the spread of what they combine on top: see the notes.

        Examples
        --------
        >>> from mixtailor import Krum
        >>> rule = Sketched(Krum(f=2), sketch=4096)
        >>> rule.kappa_at(0.0, 12, 2, 1000) == Krum(f=2).kappa(12, 2, 1000)
        True
        >>> rule.kappa_at(0.1, 12, 2, 1000) / Krum(f=2).kappa(12, 2, 1000) < 1.3
        True
        """
        if not 0.0 <= error < 1.0:
            refuse(f"The error of a squared distance needs to be a share of it, at least 0 and below 1: {error!r}.")
        inner = self.rule.kappa(n, f, d)
        return None if inner is None else (1 + inner) * (1 + error) / (1 - error) - 1

    def min_rows(self) -> int:
        return self.rule.min_rows()

    def needs(self) -> str:
        return self.rule.needs()

    def tolerates(self, n: int) -> int:
        return self.rule.tolerates(n)

    @property
    def robust(self) -> bool:
        return self.rule.robust

    def missing_laws(self) -> Mapping[str, str]:
        return self.rule.missing_laws()

    def asks(self) -> Asks:
        return Asks()  # nothing but the sketches

    def plan(self, arrival: "Arrival", request: "Request", n: int, key: bytes | None = None) -> Plan:
        plan = self.rule.plan(arrival, request, n, key)
        return Plan(self if plan.rule is self.rule else Sketched(plan.rule, self.sketch), plan.key, plan.facts)

    def takes_weights(self) -> bool:
        return True

    def check_share(self, n: int, share: float) -> None:
        self.rule.check_share(n, share)

    def decide(self, updates: Updates) -> Point:
        return self._decided(updates, self.rule.decide)

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        return self._decided(updates, lambda seen: self.rule.decide_weighted(seen, weighting))

    def _decided(self, updates: Updates, decide: Callable[[Updates], Point]) -> Point:
        sketches = updates.sketch(int(updates.random.integers(1 << 63)), self.sketch)
        point = decide(updates.derived(sketches, Call(updates.random)))
        weights = point.updates.over_received(point.weights) if isinstance(point, Combination) else None
        if weights is None:
            refuse(f"{self.rule!r} computes each coordinate by itself, and a sketch has none of them. {COMBINING}")
        from_middle = sketches - weights @ sketches
        spread = float(weights @ (from_middle * from_middle).sum(axis=1))
        return updates.combine(weights, **point.facts, spread=spread)
