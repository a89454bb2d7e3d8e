r"""How far from the honest rows a rule's answer can be, whatever f rows hold, in units of the honest rows' diameter.

Published coefficients are checked as they are. This is for rules without one as well: a bound that follows from the
definition by the triangle inequality. It is loose, and still no rule that one far row moves can keep it.

D is the largest Euclidean distance between honest rows. From Euclidean distances to those in l_p and back costs a
factor :math:`c = d^{|1/2 - 1/p|}`. `reach` is R such that :math:`\lVert U - h \rVert_2 \le R D` for every honest row h.
"""

from __future__ import annotations

import math

import mixtailor as mt
from mixtailor.preaggregation.base import Both, Chain
from mixtailor.rules import Rule


def reach(rule: Rule, n: int, f: int, d: int) -> float | None:
    """The bound R for n rows of which f lie; None where the definition gives none."""
    if f == 0 and not isinstance(rule, (mt.Bulyan, Chain, mt.Subsampled)):
        return _hull(rule)
    c = math.pow(d, abs(0.5 - 1 / float(getattr(rule, "p", 2.0))))
    match rule:
        case mt.Comed() | mt.TrimmedMean():
            return math.sqrt(d)  # within the box of the honest rows, whose diagonal is at most sqrt(d) D
        case mt.Meamed() | mt.Phocas():
            return 2 * math.sqrt(d)  # values at most as far from a centre in the box as the honest ones are
        case mt.Krum() | mt.MultiKrum():
            # A chosen row scores no more than an honest one can: sum of n - f - 2 powers of c D at most. One of its
            # neighbours is honest, for it has n - f - 2 of them and at most f - 1 others lie.
            honest = max(1, n - f)
            if isinstance(rule, mt.MultiKrum) and rule.m is not None and rule.m > honest:
                return None
            neighbours = max(1, n - f - 2)
            return 1 + c * (neighbours if rule.power == 1 else math.sqrt(neighbours))
        case mt.Medoid() | mt.GeometricMedian():
            # (n - 2f) |U - h| <= 2 (n - f) D, since each lie can be nearer to U than to h by |U - h| at most.
            if n <= 2 * f:
                return None
            euclidean = not isinstance(rule, mt.GeometricMedian) or rule.p == 2.0
            return 2 * c * (n - f) / (n - 2 * f) + 1e-3 if euclidean else None
        case mt.Aksel():
            return 2 * math.sqrt(d)  # a mean of rows that are as near to the comed as honest ones
        case mt.MDA():
            return 1 + 1.0  # kept rows are within the least diameter, and some of them are honest
        case mt.Bulyan():
            return _bulyan(rule, n, f, d)
        case mt.Subsampled():
            return reach(rule.rule, min(rule.k, n), min(f, rule.rule.tolerates(min(rule.k, n))), d)
        case Chain():
            return _behind(rule, n, f, d)
    return None


def _hull(rule: Rule) -> float | None:
    """Without lies, a convex combination of rows, or of columns of them, is near to all."""
    if isinstance(rule, (mt.SignVote, mt.FLTrust, mt.CenteredClipping, mt.MixTailor)) or not rule.robust:
        return None
    if isinstance(rule, (mt.Comed, mt.TrimmedMean, mt.Meamed, mt.Phocas, mt.Aksel, mt.Tree)):
        return None  # the box of the rows is checked instead
    return 1.0 if type(rule).__module__.startswith("mixtailor.rules.") else None


def _bulyan(rule: mt.Bulyan, n: int, f: int, d: int) -> float | None:
    picks = n - 2 * f
    if rule.then is None:
        return 2 * math.sqrt(d)  # values as near to a median in the box as honest ones
    then = rule.then.with_f(f) if rule.then.declared_f() is not None else rule.then
    if not then.robust or then.min_rows() > picks or then.tolerates(picks) < f:
        return None
    return reach(then, picks, f, d)


def _behind(chain: Chain, n: int, f: int, d: int) -> float | None:
    """What a pre-aggregation makes of honest rows has a diameter of so many D, so far from them."""
    before = chain.before
    if isinstance(before, Both):
        return _behind(Chain(before.first, Chain(before.second, chain.rule)), n, f, d)
    rows, faulty = before.after(n, f)
    behind = chain.rule.with_f(faulty) if chain.rule.declared_f() is not None else chain.rule
    if not behind.robust or behind.min_rows() > rows or behind.tolerates(rows) < faulty:
        return None
    inner = reach(behind, rows, faulty, d)
    if inner is None:
        return None
    match before:
        case mt.Bucketing() | mt.Resampling():
            return 1 + inner  # means of honest rows alone are within their hull
        case mt.NNM():
            c = math.pow(d, abs(0.5 - 1 / float(before.p)))
            return 1 + c + inner * (1 + 2 * c)  # each honest row becomes one at most c D away
        case mt.SimilarityFilter():
            return 1 + inner
    return None  # lengths are from the origin: see `promises`
