"""The best response to a mixture: rows that make the expected result as bad as a search can."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_count, check_fraction, refuse
from mixtailor._types import Floats
from mixtailor.attacks._evolution import Record, evolve
from mixtailor.attacks._frame import Frame
from mixtailor.attacks._search_starts import SIMPLE, Start, moved, started
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.trials import Trials, check_target
from mixtailor.rules import Rule
from mixtailor.updates import Combination, Point

__all__ = ["BestResponse", "quantile"]

_Value = Callable[[Floats], float]

# Of the budget that the starts leave: equal rows first, since there are fewer numbers to find.
_EQUAL = 0.5
_LEAST, _MOST, _SCAN = 1e-2, 1e2, 200  # the epsilons of the scan, and how many there are at most
_ALONG = 10  # a candidate along the mean for so many against it
_GAIN = 1e-6  # of a payoff between -1 and 1: less is rounding, and the search has returned its start
STEP = 0.1  # of the first moves, in units of the honest updates' distance to their mean


@dataclass(frozen=True)
class BestResponse(Attack):
    r"""Updates that minimise the expected payoff of a mixture, found by a search.

    .. math:: \min_{b_1, \ldots, b_f} \sum_m p_m \frac{\langle U_m, g \rangle}{\lVert g \rVert \max(\lVert U_m \rVert,
        \lVert g \rVert)}, \qquad
        b_j = \bar x + e^{s_j} (b_j^0 - \bar x) + \rho \sum_k \theta_{jk} v_k

    The search starts from simple attacks and from a scan of the tailored attack's epsilon. It moves the updates of the
    best of them, :math:`b^0`, in the span of a few informative directions :math:`v_k` of length one: the mean, the
    deviation of each coordinate, the same against the mean's signs, and the leading principal directions. :math:`\rho`
    is the honest updates' distance to their mean. First all updates move together, then in groups.

    Parameters
    ----------
    target : Rule
        The rule, or the MixTailor with its probabilities, that the server uses.
    budget : int
        How many candidates to try, starts included; each is tried on every rule of the pool. Half of what the starts
        leave, 200 at most, is the scan: epsilons from 0.01 to 100, equally spaced in their logarithm. A tenth as many
        candidates go along the mean.
    quantile : float, optional
        Minimise this quantile of the payoff over the draw in place of the expectation: 1 is the worst payoff for the
        attacker.
    starts : sequence of Attack, optional
        Where to start besides the scan; simple attacks of several sizes by default.
    directions : int
        How many principal directions.
    groups : int
        How many different updates to send at most.

    Examples
    --------
    >>> from mixtailor import Comed, Krum, MixTailor
    >>> honest = 1.0 + np.random.default_rng(0).normal(size=(10, 50))
    >>> facts = BestResponse(MixTailor([Krum(f=2), Comed()]), budget=120).craft(honest, f=2, rng=0).facts
    >>> facts["value"] < facts["start_value"], facts["improved"]
    (True, True)

    Notes
    -----
    `craft` reports the value, the best start and its value, the improvement, whether there is any (`improved` is false
    if the search returns its start), the payoff of each rule, the value against the number of candidates, and the
    number of rule evaluations. g is the honest mean, the attacker's best guess of the gradient.

    The payoff covers one step. It is not continuous where a rule selects another update, and a search has a few hundred
    candidates at most: with the same starts and the same number of candidates, an evolution strategy with one parent
    reached lower values than covariance matrix adaptation (``docs/adversary.md`` has the figures).
    """

    target: Rule
    budget: int = field(default=420, kw_only=True)
    quantile: float | None = field(default=None, kw_only=True)
    starts: tuple[Attack, ...] | None = field(default=None, kw_only=True)
    directions: int = field(default=3, kw_only=True)
    groups: int = field(default=2, kw_only=True)

    needs: ClassVar[str] = "the honest updates, the server's rules and their probabilities"

    def __post_init__(self) -> None:
        if not isinstance(self.target, Rule):
            raise TypeError(f"BestResponse needs target= as a rule or a MixTailor and got {self.target!r}.")
        check_count("BestResponse", "budget", self.budget, 2)
        check_count("BestResponse", "directions", self.directions, 0)
        check_count("BestResponse", "groups", self.groups)
        if self.quantile is not None:
            check_fraction("BestResponse", "quantile", self.quantile)
        if self.starts is not None:
            if not self.starts or not all(isinstance(start, Attack) for start in self.starts):
                refuse(f"BestResponse needs starts as a sequence of at least one attack and got {self.starts!r}.")
            object.__setattr__(self, "starts", tuple(self.starts))

    def points(self, scene: Scene) -> Sequence[Point]:
        return self.search(Trials(check_target(self, self.target, scene.n), scene))

    def search(self, trials: Trials) -> list[Combination]:
        """The updates against the rules and the reference of some trials, with what the search found as their facts."""
        attacks = SIMPLE if self.starts is None else self.starts
        frame, starts, reference = started(trials.scene, attacks, self.directions, trials.reference)
        trials.reference = reference or trials.reference  # the same point, where the candidates' geometry knows it
        record = Record()

        payoffs: dict[str, float] = {}

        def value(rows: Floats) -> float:
            found = [outcome.payoff for outcome in trials.outcomes(frame.points(rows))]
            here = self._value(found, trials.shares)
            if here < record.value:
                payoffs.update(zip(map(repr, trials.rules), found, strict=True))
            return record.note(rows, here)

        start = self._from_starts(value, starts, frame, trials.scene.f)
        best_start = record.value
        self._improve(value, frame, record, trials)
        assert record.best is not None
        facts = {
            "value": record.value,
            "start": start.name,
            "start_value": best_start,
            "improvement": best_start - record.value,
            "improved": best_start - record.value > _GAIN,
            "payoffs": payoffs,
            "history": tuple(record.history),
            "candidates": record.tried,
            "evaluations": trials.evaluations,
        }
        return frame.points(record.best, **facts)

    def _from_starts(self, value: _Value, starts: Sequence[Start], frame: Frame, f: int) -> Start:
        tried = list(starts[: self.budget])
        count = min((self.budget - len(tried)) // 2, _SCAN)
        for epsilon in np.geomspace(_LEAST, _MOST, count):
            tried.append(Start(f"Tailored(epsilon={epsilon:.4g})", np.tile(-epsilon * frame.centre, (f, 1))))
        # Along the mean: a rule that bounds lengths, or selects by them, may lose more by an update that is too long.
        for size in np.geomspace(_LEAST, _MOST, count // _ALONG):
            tried.append(Start(f"the mean times {size:.4g}", np.tile(size * frame.centre, (f, 1))))
        found = [value(start.rows) for start in tried]
        return tried[int(np.argmin(found))]

    def _improve(self, value: _Value, frame: Frame, record: Record, trials: Trials) -> None:
        f, left = trials.scene.f, self.budget - record.tried
        stages = sorted({1, min(self.groups, f)})
        for number, groups in enumerate(stages):
            share = left if number == len(stages) - 1 else int(_EQUAL * left)
            left -= share
            base = record.best
            assert base is not None
            if share > 1:
                change = partial(moved, frame, base, np.arange(f) % groups)
                size = groups * (len(frame.directions) + 1)
                evolve(
                    lambda theta, change=change: value(change(theta)),  # type: ignore[misc]  # bound in the loop
                    np.zeros(size),
                    step=STEP,
                    budget=share,
                    rng=trials.scene.random,
                )

    def _value(self, payoffs: Sequence[float], shares: Sequence[float]) -> float:
        if self.quantile is None:
            return math.fsum(p * u for p, u in zip(shares, payoffs, strict=True))
        return quantile(payoffs, shares, self.quantile)


def quantile(values: Sequence[float], shares: Sequence[float], level: float) -> float:
    """The least value that is not exceeded with a probability of `level`.

    Examples
    --------
    >>> quantile([3.0, 1.0, 2.0], [0.5, 0.25, 0.25], 0.5)
    2.0
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(np.asarray(shares, np.float64)[order])
    # Rounding in the sum of the shares is not to skip a value.
    place = int(np.searchsorted(reached, level - 1e-12))
    return float(values[order[min(place, len(order) - 1)]])
