"""Pools: the paper's sixty-four, and the one we would recommend."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from mixtailor._checks import check_f, nearest, refuse
from mixtailor.preaggregation import NNM
from mixtailor.rules import CAF, Bulyan, Comed, GeometricMedian, Krum, Mean, Rule

__all__ = ["POOLS", "default_pool", "paper_pool"]

CLASSES = ("krum", "comed", "geometric_median", "bulyan")


def paper_pool(
    f: int,
    n: int | None = None,
    norms: Iterable[float] = range(1, 17),
    rng: np.random.Generator | int | None = None,
    *,
    without: Collection[str] = (),
    bulyan_norms: Iterable[float] | None = None,
) -> list[Rule]:
    r"""The sixty-four rules of the MixTailor paper: sixteen each of Krum, comed, geometric median and Bulyan.

    Krum and the geometric median come in the l_p norms from 1 to 16. Bulyan's sixteen are four selections times four
    second phases out of Krum, average, geometric median and comed.

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    n : int, optional
        How many updates every round has. What they forbid is left out of the pool, for good: a `MixTailor` refuses a
        call with fewer updates than one of its rules needs.
    norms : iterable of float
        The norms of Krum and of the geometric median; the comeds are as many.
    rng : Generator or int, optional
        Draw the norms at random, as many as `norms` has, from its smallest to its largest, as the paper words it.
    without : collection of str
        Classes to leave out ("krum", "comed", "geometric_median", "bulyan"), for the paper's ablations.
    bulyan_norms : iterable of float, optional
        Norms for the sixteen Bulyans, in order; the Euclidean norm by default.

    Examples
    --------
    >>> len(paper_pool(f=2)), len(paper_pool(f=2, without=("bulyan",)))
    (64, 48)

    Notes
    -----
    The paper gives every class random norms. A comed has none, so that its sixteen are equal. Bulyan's sixteen differ
    by their phases already and here use the Euclidean norm: with one random norm each, a norm and a pair of phases
    could not be distinguished.

    Two of the Bulyans are **not robust**: they select by Krum or by the average, and average what they selected. f >= 2
    Byzantine updates move their result without bound: with Krum, two identical far updates are selected last. They are
    kept, because the paper has them, and `MixTailor` warns of them once; `default_pool` has no such rule.
    With the average as a selection, Byzantine updates also decide which honest ones are selected.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022.
    """
    check_f("paper_pool", f)
    for name in without:
        if name not in CLASSES:
            refuse(f"paper_pool has no class {name!r}. {nearest(str(name), CLASSES)}")
    powers = [float(p) for p in norms]
    if not powers:
        refuse("paper_pool needs at least one norm and got none.")
    drawn = powers
    if rng is not None:
        low, high = min(powers), max(powers)
        drawn = [float(p) for p in np.random.default_rng(rng).integers(int(low), int(high) + 1, size=len(powers))]
    phases: list[Rule] = [Krum(f), Mean(), GeometricMedian(), Comed()]
    own = [2.0] * 16 if bulyan_norms is None else [float(p) for p in bulyan_norms]
    if len(own) != 16:
        refuse(f"paper_pool needs sixteen bulyan_norms, one for each pair of phases, and got {len(own)}.")
    pool: dict[str, list[Rule]] = {
        "krum": [Krum(f, p=p) for p in drawn],
        "comed": [Comed() for _ in drawn],
        "geometric_median": [GeometricMedian(p=p) for p in drawn],
        "bulyan": [
            Bulyan(f, selection=_in_norm(selection, p), then=_in_norm(then, p), p=p)
            for p, (selection, then) in zip(own, [(a, b) for a in phases for b in phases], strict=True)
        ],
    }
    rules = [rule for name in CLASSES if name not in without for rule in pool[name]]
    if n is None:
        return rules
    if n < 2 * f + 1:
        refuse(f"paper_pool needs more than half of the updates honest (n >= 2f + 1) and got n = {n}, f = {f}.")
    return [rule for rule in rules if rule.min_rows() <= n]


def _in_norm(rule: Rule, p: float) -> Rule:
    return dataclasses.replace(rule, p=p) if hasattr(rule, "p") else rule  # type: ignore[type-var]  # a dataclass


def default_pool(f: int) -> list[Rule]:
    r"""Our pool for a single aggregation, where no earlier round is known: two rules that fail under different attacks.

    CAF decides from the directions in which updates spread, the geometric median behind nearest-neighbour mixing from
    all distances at once. For training, where rounds follow one another, take `mixtailor.recommended`, which has a
    memory of what each worker did. Without one, a patient attacker gets through any rule; most easily with momentum at
    the server.

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.

    Examples
    --------
    >>> default_pool(f=2)
    [CAF(f=2), NNM(f=2) >> GeometricMedian()]
    """
    check_f("default_pool", f)
    return [CAF(f), NNM(f) >> GeometricMedian()]


# The pools that have a name, for text, tables and the command line. "mixtailor" is the one for whoever names no other:
# all of its rules have a guarantee.
POOLS: Mapping[str, Callable[..., list[Rule]]] = {
    "mixtailor": default_pool,
    "default_pool": default_pool,
    "paper_pool": paper_pool,
}
