"""A lower bound on a rule's robustness coefficient, by searching for its worst input."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixtailor._checks import check_count, check_f, refuse
from mixtailor.attacks._evolution import evolve
from mixtailor.mixing import SeededEntropy
from mixtailor.rules import Rule
from mixtailor.rules.plain import as_rule
from mixtailor.testing.robustness import Worst, climb, excess
from mixtailor.theory._needs import Floats

__all__ = ["KappaBound", "kappa_lower_bound"]


@dataclass(frozen=True)
class KappaBound:
    """What a search found out about a rule's coefficient.

    Attributes
    ----------
    lower : float
        The worst ``|result - honest mean|^2 / honest variance`` that was found: no kappa is below it.
    published : float or None
        The coefficient that the rule declares, for the d of the worst input.
    grows : bool
        Whether making the f updates that are not counted as honest a thousand times longer makes it larger without end.
    rows : array
        The worst input.
    evaluations : int
        How often the rule was called.
    """

    rule: str
    n: int
    f: int
    lower: float
    published: float | None
    grows: bool
    rows: Floats
    evaluations: int

    def __str__(self) -> str:
        declared = "none declared" if self.published is None else f"{self.published:.6g} declared"
        growing = "; it grows with the length of the Byzantine rows" if self.grows else ""
        return (
            f"kappa of {self.rule} at n = {self.n}, f = {self.f}: at least {self.lower:.6g}, {declared}"
            f"{growing} ({self.evaluations} evaluations)"
        )


def kappa_lower_bound(
    rule: Any, n: int, f: int, *, dimensions: Sequence[int] = (1, 2, 3), steps: int = 400, seeds: int = 2
) -> KappaBound:
    r"""Search for the input on which a rule errs most.

    .. math:: \kappa \ge \max_x \max_{|S| = n - f} \frac{\lVert R(x) - \bar x_S \rVert^2}
        {\frac{1}{n - f} \sum_{i \in S} \lVert x_i - \bar x_S \rVert^2}

    Any subset of n - f updates could be the honest ones. The search climbs from clusters, the shape of the known worst
    cases, in a few dimensions, and polishes the best. A user's own rule, any callable, gets a figure.

    Parameters
    ----------
    rule : Rule or callable
        The rule to search against.
    n, f : int
        Updates, and how many of them may be Byzantine; the number of subsets should be small.
    dimensions : sequence of int
        The d to search in.
    steps : int
        Candidates of each climb.
    seeds : int
        Climbs in each dimension.

    Examples
    --------
    The mean has no coefficient; the median's is sharp, and the search finds its worst case.

    >>> from mixtailor import Comed, Mean
    >>> kappa_lower_bound(Mean(), 7, 2, steps=100).grows
    True
    >>> print(kappa_lower_bound(Comed(), 7, 2, dimensions=(1,)))
    kappa of Comed() at n = 7, f = 2: at least 1.5, 1.5 declared (... evaluations)

    Notes
    -----
    A lower bound: the true coefficient may be larger, the more so in more dimensions. For a rule that draws, the same
    randomness is used for every input.
    """
    who = "kappa_lower_bound"
    check_f(who, f)
    check_count(who, "n", n)
    check_count(who, "steps", steps, 20)
    check_count(who, "seeds", seeds)
    if not 0 < f < n - f:
        refuse(f"{who} needs 0 < f < n/2 and got n = {n} and f = {f}.")
    if not dimensions:
        refuse(f"{who} needs at least one dimension and got none.")
    known = as_rule(rule)
    known.check_rows(n)
    best, evaluations = Worst(-1.0, np.zeros((n, 1)), 0), 0
    for d in dimensions:
        check_count(who, "dimension", d)
        for seed in range(seeds):
            found = climb(known, n, f, d=d, steps=steps, seed=seed, entropy=SeededEntropy(0))
            evaluations += found.evaluations
            best = found if found.ratio > best.ratio else best
    best, polished = _polished(known, best, f, steps)
    grows, called = _grows(known, best.rows, f)
    d = best.rows.shape[1]
    return KappaBound(
        repr(known), n, f, best.ratio, known.kappa(n, f, d), grows, best.rows, evaluations + polished + called
    )


def _polished(rule: Rule, worst: Worst, f: int, steps: int) -> tuple[Worst, int]:
    """The best of the climbs, improved by small moves of all its entries."""
    n, d = worst.rows.shape
    # One row far away would take all the moves to itself.
    unit = float(np.median(np.abs(worst.rows - np.median(worst.rows, axis=0)))) or 1.0

    def value(moves: Floats) -> float:
        rows = worst.rows + unit * moves.reshape(n, d)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # an early stop is a fair result here
            result = rule(rows, reference=rows[0], honest=range(n - f), entropy=SeededEntropy(0))
        return -excess(result, rows, f)

    if not np.isfinite(worst.ratio):
        return worst, 0
    moves, least = evolve(value, np.zeros(n * d), step=0.1, budget=steps, rng=np.random.default_rng(0))
    return Worst(max(-least, worst.ratio), worst.rows + unit * moves.reshape(n, d), steps), steps


def _grows(rule: Rule, rows: Floats, f: int) -> tuple[bool, int]:
    """Whether longer rows, f of them at a time, make the error larger by the square of their length."""
    n = len(rows)
    centre = np.median(rows, axis=0)
    found = []
    for away in (1e3, 1e6):
        candidate = rows.copy()
        direction = rows[n - f :] - centre
        size = float(np.abs(direction).max()) or 1.0
        candidate[n - f :] = centre + away * (direction / size if direction.any() else 1.0)
        result = rule(candidate, reference=candidate[0], honest=range(n - f), entropy=SeededEntropy(0))
        found.append(excess(result, candidate, f))
    # Bounded rules lose their hold on rows that far away, so that both are about the same.
    return bool(found[1] > 1e3 * max(found[0], 1.0)), len(found)
