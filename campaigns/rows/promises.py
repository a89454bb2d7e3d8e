"""What an answer must be, whatever the Byzantine rows hold. Each check returns sentences about what is broken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import mixtailor as mt
from campaigns.rows.inputs import LEAST, Input
from campaigns.rows.reach import reach
from mixtailor.preaggregation.base import Both, Chain
from mixtailor.rules import Aggregation, Rule
from mixtailor.rules.part import walk
from mixtailor.testing.laws import reads_all

BOXED = (mt.Comed, mt.TrimmedMean)
HULLS = (*BOXED, mt.Krum, mt.MultiKrum, mt.Medoid, mt.Meamed, mt.GeometricMedian)
WIDE = np.longdouble


def broken(result: Aggregation, update: Any, given: Input, reference: Any, rng: np.random.Generator) -> Iterator[str]:
    """The promises that an answer breaks; `update` is the answer, flat."""
    rows = given.rows
    if update.dtype != rows.dtype or update.shape != rows.shape[1:]:
        yield f"the answer is {update.dtype}{update.shape} where rows are {rows.dtype}{rows.shape[1:]}"
        return
    if not np.isfinite(update).all():
        yield "the answer is not finite"
        return
    yield from _quarantine(result, given)
    left = [row for row in range(len(rows)) if row not in {item.row for item in result.quarantined}]
    honest = [row for row in given.honest if row in left]
    if not honest:
        return
    bounds = Bounds(rows[honest].astype(WIDE), update.astype(WIDE), rows.dtype)
    rule, n = result.rule, len(left)
    f = rule.tolerates(n)
    yield from bounds.special(rule, n, reference)
    if n - len(honest) > f or not rule.robust:
        return
    yield from bounds.reach(rule, n, f)
    yield from _kappa(rule, left, honest, rows, update, f, rng)


def _quarantine(result: Aggregation, given: Input) -> Iterator[str]:
    named = {item.row for item in result.quarantined}
    if not named <= {*given.faulty, *given.beyond}:
        yield f"rows {sorted(named - set(given.faulty))} were quarantined without proof"
    if reads_all(result.rule) and not set(given.faulty) <= named:
        yield f"rows {sorted(set(given.faulty) - named)} are not finite and were not named"
    used = set() if result.weights is None else set(np.nonzero(result.weights)[0].tolist())
    if used & set(given.faulty):
        yield f"rows {sorted(used & set(given.faulty))} are not finite and have weight"


def _kappa(
    rule: Rule, left: list[int], honest: list[int], rows: Any, update: Any, f: int, rng: np.random.Generator
) -> Iterator[str]:
    """The published coefficient, for the honest rows and for other subsets that could be the honest ones."""
    kappa = rule.kappa(len(left), f, rows.shape[1])
    if kappa is None:
        return
    size = len(left) - f
    subsets = [rng.choice(honest, size=size, replace=False)] if len(honest) >= size else []
    subsets += [rng.choice(left, size=size, replace=False) for _ in range(3)]
    for subset in subsets:
        chosen = rows[subset].astype(WIDE)
        mean = chosen.mean(axis=0)
        unit = max(np.abs(chosen).max(), np.abs(update.astype(WIDE)).max(), np.finfo(WIDE).tiny)
        away = np.sqrt((((update.astype(WIDE) - mean) / unit) ** 2).sum())
        spread = np.sqrt((((chosen - mean) / unit) ** 2).sum(axis=1).mean())
        allowed = np.sqrt(WIDE(kappa)) * spread * (1 + WIDE(1e-5)) + rounding(chosen, rows.dtype) / unit
        if not away <= allowed:
            ratio = float((away / spread) ** 2) if spread > 0 else float("inf")
            yield f"the coefficient is {kappa:.4g} and rows {sorted(map(int, subset))} make it {ratio:.6g}"


def rounding(rows: Any, dtype: Any) -> Any:
    """What the type itself costs an answer of this size, and what sums of float64 numbers do, in Euclidean length.

    Distances of float64 rows below `LEAST` count as zero: their squares are.
    """
    info = np.finfo(dtype)
    least = LEAST if dtype == np.float64 else 2 * WIDE(info.smallest_subnormal)
    size = np.abs(rows).max(initial=0)
    each = 2 * WIDE(info.eps) * size + 64 * WIDE(np.finfo(np.float64).eps) * size + least
    return each * np.sqrt(WIDE(max(1, rows.shape[1])))


class Bounds:
    """Where an answer may be, given the honest rows: all in extended precision."""

    def __init__(self, honest: Any, update: Any, dtype: Any) -> None:
        self.honest, self.update = honest, update
        self.slack = rounding(honest, dtype)
        self.low, self.high = honest.min(axis=0), honest.max(axis=0)

    def within(self, low: Any, high: Any, what: str) -> Iterator[str]:
        """Coordinate by coordinate."""
        below, above = (low - self.update).max(initial=0), (self.update - high).max(initial=0)
        if max(below, above) > self.slack:
            yield f"the answer is {float(max(below, above)):.3g} outside {what}"

    def length(self) -> Any:
        return np.sqrt((self.update**2).sum())

    def reach(self, rule: Rule, n: int, f: int) -> Iterator[str]:
        """No farther from an honest row than the definition allows."""
        if isinstance(_last(rule), BOXED) and not isinstance(rule, Chain):
            yield from self.within(self.low, self.high, "the box of the honest rows")
        elif isinstance(rule, (mt.Meamed, mt.Phocas)) or (isinstance(rule, mt.Bulyan) and rule.then is None):
            width = self.high - self.low
            yield from self.within(self.low - width, self.high + width, "thrice the box of the honest rows")
        bound = reach(rule, n, f, self.honest.shape[1])
        if bound is None or self._similar(rule):
            return
        between = np.sqrt(((self.honest[:, None] - self.honest[None]) ** 2).sum(axis=2)).max()
        away = np.sqrt(((self.update - self.honest) ** 2).sum(axis=1)).max()
        if not away <= bound * between * (1 + WIDE(1e-6)) + self.slack:
            far = float(away / between) if between else float("inf")
            yield f"the answer is {far:.4g} D away, and {bound:.4g} is the most"

    def _similar(self, rule: Rule) -> bool:
        """Whether a filter may take honest rows away because they are similar: then it promises nothing."""
        widths = [part.eps for part in fronts(rule) if isinstance(part, mt.SimilarityFilter)]
        if not widths:
            return False
        apart = np.abs(self.honest[:, None] - self.honest[None]).max(axis=2)
        np.fill_diagonal(apart, np.inf)
        return len(fronts(rule)) > 1 or bool(apart.min() < 2 * max(widths))

    def special(self, rule: Rule, n: int, reference: Any) -> Iterator[str]:
        """What single rules promise besides."""
        lengths = np.sqrt((self.honest**2).sum(axis=1))
        trusted = reference.astype(WIDE)
        more = 1 + WIDE(1e-6)
        liars = n - len(self.honest)
        match rule:
            case mt.CGE(f=f) if liars <= f and self.length() > lengths.max() * more + self.slack:
                yield "the answer is longer than the longest honest row"
            case mt.FLTrust() if self.length() > np.sqrt((trusted**2).sum()) * more + self.slack:
                yield "the answer is longer than the reference"
            case mt.CenteredClipping(tau=tau, iterations=iterations):
                away = np.sqrt(((self.update - trusted) ** 2).sum())
                if away > tau * iterations * more + self.slack + rounding(trusted[None], np.float64):
                    yield f"the answer is {float(away):.3g} from the reference, {iterations} steps of {tau} at most"
            case mt.MoNNA(f=f) if liars <= f:
                away = np.sqrt(((self.update - trusted) ** 2).sum())
                honest = np.sqrt(((self.honest - trusted) ** 2).sum(axis=1))
                if away > honest.max() * more + self.slack:
                    yield "the answer is farther from the reference than any honest row"
            case mt.SignVote():
                yield from self._signs(liars)
            case mt.Mean():
                mean = self.honest.mean(axis=0)
                if not liars and np.abs(self.update - mean).max(initial=0) > self.slack:
                    yield "the answer is not the mean"
            case Chain():
                most = _shortest(rule, lengths)
                if most is not None and np.abs(self.update).max(initial=0) > most * more + self.slack:
                    yield f"a coordinate is {float(np.abs(self.update).max()):.3g}, beyond the clipped length"

    def _signs(self, liars: int) -> Iterator[str]:
        votes = np.sign(self.honest).sum(axis=0)
        settled = np.abs(votes) > liars
        if not np.isin(self.update, (-1, 0, 1)).all():
            yield "the answer holds something else than signs"
        elif not (self.update[settled] == np.sign(votes[settled])).all():
            yield "a sign that honest rows settled is another"


def _last(rule: Rule) -> Rule:
    return _last(rule.rule) if isinstance(rule, (Chain, mt.Subsampled)) else rule


def fronts(rule: Rule) -> list[Any]:
    """The pre-aggregations in front of a rule, in order."""
    if not isinstance(rule, Chain):
        return []
    return [*(part for part in walk(rule.before) if not isinstance(part, Both)), *fronts(rule.rule)]


def _shortest(chain: Chain, lengths: Any) -> Any:
    """The most that a row measures when it leaves the pre-aggregations, where they clip; rules stay within the box."""
    last = _last(chain)
    if not isinstance(last, HULLS):
        return None
    most = None
    for place, front in enumerate(fronts(chain)):
        if isinstance(front, mt.Clipping):
            most = front.radius if most is None else min(most, front.radius)
        elif isinstance(front, mt.ARC) and place == 0:
            most = lengths.max()
    return most
