"""A certificate: what recorded gradients say about a pool under attacks, by the paper's own definition."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.attacks.base import Attack
from mixtailor.attacks.trials import Trials
from mixtailor.mixing import MixTailor
from mixtailor.rules import Rule
from mixtailor.theory._needs import Floats, more_than
from mixtailor.theory.certificate import AttackVerdict, Certificate, RuleVerdict, Verdict
from mixtailor.theory.estimates import Interval
from mixtailor.theory.states import Round, State, check_states, intervals, members
from mixtailor.updates import Combination, Point, Updates

__all__ = ["certify"]

MOMENTS = (2, 3, 4)
# The fourth power of a length is to be a number; float32 ends before this.
_FARTHEST = 1e75
_GROWS = 0.1  # a power of the attack's size with which a bounded result does not grow


def certify(
    pool: Iterable[Rule] | Rule,
    states: Iterable[State],
    attacks: Sequence[Attack],
    f: int,
    *,
    confidence: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Certificate:
    r"""Judge a pool by Definition 1 of the paper, on recorded states, under given attacks.

    .. math:: E[U]^\top \nabla F > 0, \qquad E \lVert U \rVert^r \le K_r E \lVert G \rVert^r, \quad r = 2, 3, 4

    At each state every attack is played against every resample, and every rule is applied. The first condition is
    judged by bootstrap intervals of the mean over resamples, at each state. For the second, the updates of each attack
    are made longer, up to the largest number of their type: a ratio at one size shows nothing. The verdict is "broken"
    where the mixture's interval is below zero at some state or a rule's result grows with the attack without end,
    "holds on these states" where all intervals are above zero, and "not shown" where one contains zero.

    Parameters
    ----------
    pool : MixTailor, iterable of rules, or one rule
        The rules to judge, as a mixture and each alone.
    states : iterable of State
        With at least 2 resamples each; 10 are better.
    attacks : sequence of Attack
        An attack that needs a target is built with it.
    f : int
        How many workers are Byzantine: the last f of each state.
    confidence : float
        Of each interval by itself; of 20 intervals at 95 %, one is wrong on average.
    draws : int
        Of the bootstrap.
    seed : int
        Of the bootstrap, the attackers and rules that draw.

    Examples
    --------
    Krum alone is broken by a small tailored attack; with the median and the geometric median beside it, the mixture
    holds.

    >>> from mixtailor import Comed, GeometricMedian, Krum
    >>> from mixtailor.attacks import Tailored
    >>> rng = np.random.default_rng(0)
    >>> states = [State(0.5 + rng.normal(size=(6, 12, 40)), np.full(40, 0.5))]
    >>> certify([Krum(f=2)], states, [Tailored(0.1)], f=2).verdict
    'broken'
    >>> print(certify([Krum(f=2), Comed(), GeometricMedian()], states, [Tailored(0.1)], f=2))
    holds on these states: 3 rules, 1 states of 6 resamples, n = 12, f = 2, L = 3.162, 95% intervals
      attack                          least E[U] . grad F  holds/broken/unknown   K2 swept  verdict
      Tailored()                                 3.51 [...]                 2/1/0  ... holds on these states

    Notes
    -----
    It says nothing of other states, nor of other attacks: give the strongest, `BestResponse` among them. grad F must
    come from data independent of the updates (`State`). The sufficient condition counts every rule that is not shown to
    hold as broken, and takes ``E|U|`` for ``|E U|``, which is not larger; it is much stronger than the definition.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022, Definition 1 and Proposition 1.
    """
    who = "certify"
    known = check_states(who, states, resamples=2)
    level = more_than(who, "confidence", confidence, 0.0)
    if level >= 1.0:
        refuse(f"{who} needs confidence below 1 and got {level:g}.")
    check_count(who, "draws", draws, 20)
    if not attacks:
        refuse(f"{who} needs at least one attack and got none.")
    n = known[0].workers
    rules, shares = members(pool, n)
    mixture = MixTailor(rules, shares / shares.sum())
    moments = _honest_moments(known, n - f)
    lipschitz = max(state.length for state in known)

    def mean(values: Floats) -> list[Interval]:
        # The same draws each time: a rule and a mixture of it alone get the same interval, hence the same verdict.
        return intervals(values, confidence=level, draws=draws, rng=np.random.default_rng(seed))

    verdicts = []
    for attack in attacks:
        played = [_play(attack, mixture, state, f, (seed, place)) for place, state in enumerate(known)]
        verdicts.append(_judge(repr(attack), rules, shares, played, moments, lipschitz, mean))
    kinds = {verdict.verdict for verdict in verdicts}
    return Certificate(
        verdict=_together(kinds),
        attacks=tuple(verdicts),
        rules=len(rules),
        states=len(known),
        resamples=min(state.resamples for state in known),
        workers=n,
        f=f,
        lipschitz=lipschitz,
        confidence=level,
        names=tuple(state.name for state in known),
    )


@dataclass(frozen=True, eq=False)
class _Played:
    """The results of all rules at one state: resamples x rules, and sizes x rules."""

    products: Floats
    lengths: Floats
    sizes: Floats
    swept: Floats


def _play(attack: Attack, mixture: MixTailor, state: State, f: int, seed: tuple[int, int]) -> _Played:
    products, lengths = [], []
    sizes, swept = np.ones(1), np.empty((0, 0))
    for resample in range(state.resamples):
        here = state.round(resample, f, np.random.default_rng((*seed, resample)))
        points = attack.decide(here.scene.honest, f, own=here.scene.own, rng=here.scene.random)
        trials = Trials(mixture, here.scene, here.gradient)
        outcomes = trials.outcomes(points)
        products.append([outcome.inner for outcome in outcomes])
        lengths.append([outcome.length for outcome in outcomes])
        if resample == 0:
            sizes, swept = _sweep(trials, points, here)
    return _Played(np.array(products), np.array(lengths), sizes, swept)


def _sweep(trials: Trials, points: Sequence[Point], here: Round) -> tuple[Floats, Floats]:
    """The lengths of all results when the attack's rows grow to the end of their type: sizes x rules."""
    honest = here.scene.honest
    distinct = list(dict.fromkeys(points))
    largest = float(honest.beside(*distinct).norms(math.inf)[honest.n :].max())
    end = min(here.whole.largest / 4.0, _FARTHEST)
    if largest == 0.0:
        return np.ones(1), np.array([[outcome.length for outcome in trials.outcomes(points)]])
    # A thousandfold at a time, and the end itself.
    steps = max(1, math.ceil(math.log10(max(end / largest, 10.0)) / 3.0))
    sizes = np.geomspace(1.0, max(end / largest, 10.0), steps + 1)
    lengths = []
    for size in sizes:
        grown = {point: _times(honest, point, float(size)) for point in distinct}
        lengths.append([outcome.length for outcome in trials.outcomes([grown[point] for point in points])])
    return sizes, np.array(lengths)


def _times(updates: Updates, point: Point, factor: float) -> Point:
    if isinstance(point, Combination):
        scaled: Combination = point.updates.combine(factor * point.weights)
        return scaled
    return updates.formula(lambda _start, _stop, values: factor * values, point)


def _honest_moments(states: Sequence[State], honest: int) -> Floats:
    """``E|G|^r`` at each state: states x r."""
    norms = [state.norms(honest) for state in states]
    found = np.array([[(size**r).mean() for r in MOMENTS] for size in norms])
    if (found <= 0.0).any():
        refuse("certify needs honest gradients that are not all zero at a state.")
    return found


def _judge(
    name: str,
    rules: tuple[Rule, ...],
    shares: Floats,
    played: Sequence[_Played],
    moments: Floats,
    lipschitz: float,
    mean: Callable[[Floats], list[Interval]],
) -> AttackVerdict:
    distinct = list(dict.fromkeys(rules))
    first = [rules.index(rule) for rule in distinct]
    each = [mean(state.products[:, first]) for state in played]  # states x distinct rules
    mixed = tuple(mean(state.products @ shares)[0] for state in played)
    judged = []
    for column, (rule, place) in enumerate(zip(distinct, first, strict=True)):
        products = tuple(state[column] for state in each)
        at_size = [
            [(s.lengths[:, place] ** r).mean() / g for r, g in zip(MOMENTS, honest, strict=True)]
            for s, honest in zip(played, moments, strict=True)
        ]
        over = [
            [float((s.swept[:, place].max() ** r) / g) for r, g in zip(MOMENTS, honest, strict=True)]
            for s, honest in zip(played, moments, strict=True)
        ]
        judged.append(
            RuleVerdict(
                rule=repr(rule),
                count=rules.count(rule),
                verdict=_by_intervals(products),
                products=products,
                length=max(float(s.lengths[:, place].mean()) for s in played),
                moments=tuple(float(k) for k in np.max(at_size, axis=0)),
                swept=tuple(float(k) for k in np.max([*at_size, *over], axis=0)),
                bounded=all(_stops(s.sizes, s.swept[:, place]) for s in played),
            )
        )
    mass = np.array([shares[[other == rule for other in rules]].sum() for rule in distinct])
    holding = np.array([rule.verdict == "holds on these states" for rule in judged])
    beta = min((p.low for rule, ok in zip(judged, holding, strict=True) if ok for p in rule.products), default=None)
    largest = max((rule.length for rule, ok in zip(judged, holding, strict=True) if not ok), default=0.0)
    margin = None if beta is None else float(mass[holding].sum() * beta - mass[~holding].sum() * largest * lipschitz)
    bounded = all(rule.bounded for rule in judged)
    verdict: Verdict = _by_intervals(mixed) if bounded else "broken"
    return AttackVerdict(
        attack=name,
        verdict=verdict,
        products=mixed,
        holding=sum(rule.count for rule in judged if rule.verdict == "holds on these states"),
        broken=sum(rule.count for rule in judged if rule.verdict == "broken"),
        unknown=sum(rule.count for rule in judged if rule.verdict == "not shown"),
        beta=beta,
        largest=largest,
        margin=margin,
        sufficient=margin is not None and margin > 0.0 and bounded,
        bounded=bounded,
        rules=tuple(judged),
    )


def _by_intervals(products: Sequence[Interval]) -> Verdict:
    if any(product.high < 0.0 for product in products):
        return "broken"
    return "holds on these states" if all(product.low > 0.0 for product in products) else "not shown"


def _together(verdicts: set[Verdict]) -> Verdict:
    if "broken" in verdicts:
        return "broken"
    return "not shown" if "not shown" in verdicts else "holds on these states"


def _stops(sizes: Floats, lengths: Floats) -> bool:
    """Whether the result has stopped growing in the upper half of the sizes, on the scale of logarithms."""
    if len(sizes) < 3:
        return True
    half = len(sizes) // 2
    low, high = max(float(lengths[half]), 1e-300), max(float(lengths[-1]), 1e-300)
    return math.log(high / low) <= _GROWS * math.log(float(sizes[-1] / sizes[half]))
