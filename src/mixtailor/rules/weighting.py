"""`Weighting`: how much each update counts, and how much of that may be Byzantine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, final

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Floats
from mixtailor.rules.part import Part, walk

__all__ = ["WEIGHTED", "Weighting", "capped", "check_weighted", "refuse_share"]

WEIGHTED = (
    "Mean, Comed, TrimmedMean, GeometricMedian(), Krum, MultiKrum, CTMA, CAF, ViewFilter and DistanceFilter have one, "
    "and so do rules behind NNM that have one."
)


@final
@dataclass(frozen=True, eq=False)
class Weighting:
    """The weights of a call, in the unit that they came in.

    Attributes
    ----------
    mass : array
        The weight of each update.
    faulty : float
        How much of the mass may be Byzantine.
    stated : bool
        Whether the caller said that, as a share; else it is what the f heaviest updates have.
    """

    mass: Floats
    faulty: float
    stated: bool

    @classmethod
    def of(cls, rule: Part, weights: Sequence[float], cap: float | None, share: float | None, n: int) -> "Weighting":
        """The weighting of n updates, checked and capped, for a rule that has a form with weights."""
        check_weighted(rule)
        mass = _numbers(weights)
        if mass.shape != (n,):
            refuse(f"weights= needs one number for each of the {n} updates and got shape {mass.shape}.")
        if not np.isfinite(mass).all() or (mass < 0.0).any() or not 0.0 < mass.sum() < np.inf:
            refuse("weights= needs finite numbers that are not negative, at least one of them positive.")
        if cap is not None:
            mass = capped(mass, cap)
        if share is not None and (not isinstance(share, (int, float, np.floating)) or not 0.0 <= share < 1.0):
            refuse(f"share= needs the part of the weight that may be Byzantine, from 0 to below 1, and got {share!r}.")
        faulty = share * float(mass.sum()) if share is not None else _heaviest(mass, rule.declared_f() or 0)
        return cls(mass, faulty, share is not None)

    @property
    def count(self) -> int:
        """How many updates have any mass: one without counts like one that never came."""
        return int(np.count_nonzero(self.mass))

    @property
    def relative(self) -> Floats:
        """The mass of each update in units of the mean of those that have any."""
        return self.mass * (self.count / self.total)

    @property
    def total(self) -> float:
        """The mass of all updates."""
        return float(self.mass.sum())

    @property
    def share(self) -> float:
        """The part of the mass that may be Byzantine."""
        return self.faulty / self.total

    @property
    def even(self) -> bool:
        """Whether the weights say nothing that a rule does not know without them."""
        return not self.stated and bool((self.mass == self.mass[0]).all())

    def heaviest(self, f: int) -> float:
        """The part of the mass that the f heaviest updates have."""
        return _heaviest(self.mass, f) / self.total

    def without(self, rows: Sequence[int]) -> "Weighting":
        """For the updates that are left after faulty ones: what these had of the Byzantine mass is no longer there."""
        left = np.setdiff1d(np.arange(len(self.mass)), np.asarray(rows, np.intp))
        removed = float(self.mass[list(rows)].sum())
        return Weighting(self.mass[left], max(0.0, self.faulty - removed), self.stated)


def check_weighted(rule: Part) -> None:
    """Raise a ValueError if a rule, or a part of it, has no form with weights."""
    lacking = [part for part in walk(rule) if not part.takes_weights()]
    if lacking:
        refuse(f"{lacking[0]!r} has no form with weights. {WEIGHTED}")


def _numbers(weights: Sequence[float]) -> Floats:
    wrong = f"weights= needs a sequence of numbers, one for each update, and got {type(weights).__name__}."
    try:
        if np.asarray(weights).dtype.kind not in "buifO":
            refuse(wrong)
        return np.array(weights, np.float64)
    except (TypeError, ValueError, RuntimeError):  # ragged, a mapping, or a tensor on a device
        refuse(wrong)


def _heaviest(mass: Floats, f: int) -> float:
    return float(np.sort(mass)[len(mass) - f :].sum()) if f else 0.0


def capped(weights: Floats, cap: float) -> Floats:
    """Weights of which none has more than `cap` of the sum; what is over is spread over the others, as they weigh.

    Examples
    --------
    >>> capped(np.array([100.0, 10.0, 30.0, 60.0]), 0.4)
    array([80., 12., 36., 72.])
    >>> capped(np.array([1.0, 0.0, 0.0]), 0.5)
    array([0.5 , 0.25, 0.25])
    """
    n, total = len(weights), float(weights.sum())
    if not isinstance(cap, (int, float)) or not cap <= 1.0 or not cap * n >= 1.0 - 1e-12:
        refuse(f"cap= needs to be from 1/n = {1 / n:.4g} to 1, or no weights of {n} updates keep to it, not {cap!r}.")
    most, found = cap * total, weights.copy()
    held = np.zeros(n, np.bool_)
    while (over := ~held & (found > most)).any():
        held |= over
        left = total - most * held.sum()
        others = float(weights[~held].sum())
        found[held] = most
        if not held.all():
            found[~held] = weights[~held] * (left / others) if others > 0.0 else left / (~held).sum()
    return found


def refuse_share(rule: Part, needs: str, share: float) -> NoReturn:
    """Say that too much of the weight may be Byzantine."""
    f = rule.declared_f()
    stated = "" if f is None else f", which the {f} heaviest updates have where share= does not say otherwise"
    refuse(f"{rule!r} needs {needs} of the weight and got a share of {share:.4g}{stated}. Lower cap=, share= or f.")
