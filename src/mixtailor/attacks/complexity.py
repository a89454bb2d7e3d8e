"""What an attack costs the attacker: rule evaluations until the result points backwards, and mimicked randomness."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mixtailor._checks import check_count, check_positive, refuse
from mixtailor._types import Floats
from mixtailor.attacks._columnwise import order_weights
from mixtailor.attacks._evolution import first_below
from mixtailor.attacks.adaptive import Adaptive
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.best_response import BestResponse
from mixtailor.attacks.optimal_tailored import OptimalTailored
from mixtailor.attacks.subsample_mimic import SubsampleMimic
from mixtailor.attacks.trials import Outcome, Trials
from mixtailor.intake import receive
from mixtailor.mixing import MixTailor, paper_pool
from mixtailor.rules import Krum, Rule, Subsampled
from mixtailor.updates import Updates

__all__ = ["Complexity", "Mimicry", "attack_complexity", "mimicry"]


@dataclass(frozen=True)
class Complexity:
    """How many rule evaluations it takes to turn results around.

    Attributes
    ----------
    angles : tuple of float
        The epsilons, in radians.
    rules : tuple of str
        The rules of the pool.
    counts : tuple of tuples of int or None
        T_i for each rule and epsilon; None where the budget did not reach it.
    spent : tuple of int
        The evaluations made for each rule.
    solved : tuple of bool
        Whether the attack on the rule was solved and not searched for: no count means there that no updates exist, for
        angles up to a right one.
    budget : int
        Candidates per rule.
    totals : tuple of int
        The sum over the pool for each epsilon; where it was not reached, the evaluations spent: a lower bound there.
    distinct : tuple of int
        The same with equal rules counted once.
    reached : tuple of int
        How many rules were turned around to each epsilon.
    """

    angles: tuple[float, ...]
    rules: tuple[str, ...]
    counts: tuple[tuple[int | None, ...], ...]
    spent: tuple[int, ...]
    solved: tuple[bool, ...]
    budget: int
    totals: tuple[int, ...]
    distinct: tuple[int, ...]
    reached: tuple[int, ...]

    def to_json(self) -> str:
        """All of it, for machines."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        lines = [f"{'angle to -g below':24}" + "".join(f"{angle:>10.4g}" for angle in self.angles)]
        for place, rule in enumerate(self.rules):
            if rule not in self.rules[:place]:
                cells = [
                    count if count is not None else "none" if self._none(place, column) else f"> {self.spent[place]}"
                    for column, count in enumerate(self.counts[place])
                ]
                lines.append(f"{rule[:24]:24}" + "".join(f"{cell:>10}" for cell in cells))
        lines.append(f"{'rules turned around':24}" + "".join(f"{count:>10}" for count in self.reached))
        for name, totals in (("sum over the pool", self.totals), ("equal rules once", self.distinct)):
            shown = (f"{'> ' if self._open(place) else ''}{total}" for place, total in enumerate(totals))
            lines.append(f"{name:24}" + "".join(f"{cell:>10}" for cell in shown))
        return "\n".join(lines)

    def _open(self, place: int) -> bool:
        """Whether a search ended before it reached this angle, so that a sum is a lower bound."""
        return any(counts[place] is None and not self._none(rule, place) for rule, counts in enumerate(self.counts))

    def _none(self, rule: int, place: int) -> bool:
        """Whether it is known that no updates reach this angle: beyond a right one, solutions are near the best."""
        return self.solved[rule] and self.angles[place] <= math.pi / 2


def attack_complexity(
    rule: Rule,
    angles: Sequence[float] = (1.0, 0.5, 0.1, 0.01),
    *,
    honest: Any,
    f: int,
    own: Any = None,
    budget: int = 200,
    seed: int = 0,
) -> Complexity:
    r"""Rule evaluations until the result under attack points against the result without, to within each angle.

    .. math:: T_i(\epsilon): \quad \pi - \angle(g, g') \le \epsilon, \qquad \text{for a pool} \quad \sum_i T_i(\epsilon)

    The attacker is `OptimalTailored` with separate updates, one rule after the other. It solves comed and the trimmed
    mean exactly: "none", for angles up to a right one, means that no updates exist. For other rules it searches, and
    "> 200" means that the updates, if there are any, take more evaluations than 200: a larger budget may find them.

    Parameters
    ----------
    rule : Rule
        A rule, or a MixTailor for the sum over its pool.
    angles : sequence of float
        The epsilons, in radians.
    honest, f, own
        As an attack takes them.
    budget : int
        Candidates per rule.
    seed : int
        Of the attacker's randomness.

    Examples
    --------
    >>> from mixtailor import Comed, Krum, MixTailor
    >>> honest = 0.3 + np.random.default_rng(0).normal(size=(10, 100))
    >>> print(attack_complexity(MixTailor([Krum(f=2), Comed()]), (1.0, 0.01), honest=honest, f=2))
    angle to -g below                1      0.01
    Krum(f=2)                        2         2
    Comed()                       none      none
    rules turned around              1         1
    sum over the pool                4         4
    equal rules once                 4         4

    Notes
    -----
    The paper counts elementary operations; a rule evaluation is what all of its search methods have in common. It
    concludes that attacking a pool takes the sum over its rules. That is what it takes to turn *every* rule around, one
    by one. To harm the mixture takes less: one search for all rules at once, as `BestResponse` makes it, need not turn
    every result around, and updates made for one rule often serve its relatives.

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022, section 4.1.
    """
    if not angles:
        refuse("attack_complexity needs at least one angle and got none.")
    for angle in angles:
        check_positive("attack_complexity", "angle", angle)
    check_count("attack_complexity", "budget", budget, 20)
    n = len(honest) + f
    rule.check_rows(n)
    rules = list(rule.rules) if isinstance(rule, MixTailor) else [rule]
    known: dict[Rule, tuple[list[int | None], int]] = {}
    solved: dict[Rule, bool] = {}
    for each in rules:
        if each not in known:
            attack = OptimalTailored(each, rows="separate", budget=budget, tolerance=min(angles))
            facts = attack.craft(honest, f, own=own, rng=seed).facts
            errors: Any = facts["errors"]
            spent: Any = facts["evaluations"]
            known[each] = [first_below(errors, angle) for angle in angles], int(spent)
            solved[each] = order_weights(each, n) is not None
    counts = tuple(tuple(known[each][0]) for each in rules)

    def total(which: Iterable[Rule], place: int) -> int:
        found = ((known[each][0][place], known[each][1]) for each in which)
        return sum(spent if count is None else count for count, spent in found)

    return Complexity(
        tuple(float(angle) for angle in angles),
        tuple(map(repr, rules)),
        counts,
        tuple(known[each][1] for each in rules),
        tuple(solved[each] for each in rules),
        budget,
        tuple(total(rules, place) for place in range(len(angles))),
        tuple(total(known, place) for place in range(len(angles))),
        tuple(sum(count[place] is not None for count in counts) for place in range(len(angles))),
    )


@dataclass(frozen=True)
class Mimicry:
    """How servers fare against attackers that mimic their randomness.

    Attributes
    ----------
    servers, attackers : tuple of str
        Their names, in the order of the payoffs.
    payoffs : tuple of tuples of float
        The mean payoff of each server (rows) against each attacker (columns), over rounds and the server's draws.
    errors : tuple of tuples of float
        Standard errors over rounds.
    ascents : tuple of tuples of float
        The share of rounds in which the server's expected result ascends.
    rounds : int
        How many rounds were played.
    """

    servers: tuple[str, ...]
    attackers: tuple[str, ...]
    payoffs: tuple[tuple[float, ...], ...]
    errors: tuple[tuple[float, ...], ...]
    ascents: tuple[tuple[float, ...], ...]
    rounds: int

    def to_json(self) -> str:
        """All of it, for machines."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        lines = [f"payoff (share of {self.rounds} rounds that ascend)"]
        lines.append(f"{'':22}" + "".join(f"{name:>24}" for name in self.attackers))
        for name, payoffs, errors, ascents in zip(self.servers, self.payoffs, self.errors, self.ascents, strict=True):
            cells = [f"{u:+.3f} +- {e:.3f} ({a:.0%})" for u, e, a in zip(payoffs, errors, ascents, strict=True)]
            lines.append(f"{name[:22]:22}" + "".join(f"{cell:>24}" for cell in cells))
        return "\n".join(lines)


def mimicry(
    rounds: Iterable[tuple[Any, Any]],
    f: int,
    *,
    k: int,
    pool: Sequence[Rule] | None = None,
    draws: int = 16,
    budget: int = 100,
    seed: int = 0,
) -> Mimicry:
    r"""The experiment behind the paper's claim about sub-sampling: is a drawn rule worth more than drawn updates?

    Servers are Krum, ``Subsampled(Krum, k)`` and a MixTailor; attackers know the server they attack. Each is met by
    `Adaptive` on Krum (who knows of no randomness), by `SubsampleMimic` on the server itself, and by `BestResponse`
    on the server itself. Payoffs are against the gradient that is given, which the attackers do not see.

    Parameters
    ----------
    rounds : iterable of (updates, gradient)
        All n workers' correct updates of one round, the Byzantine workers' last, and the true gradient, from other
        data.
    f : int
        How many of them are Byzantine.
    k : int
        How many updates `Subsampled` draws.
    pool : sequence of Rule, optional
        The MixTailor's; the paper's pool by default.
    draws : int
        Draws of the server over which its payoff is averaged, and of the attacker who mimics it.
    budget : int
        Of `BestResponse`.
    seed : int
        Seed of the draws of server and attackers.

    Examples
    --------
    >>> from mixtailor import Comed, Krum
    >>> rng = np.random.default_rng(0)
    >>> rounds = [(0.3 + rng.normal(size=(12, 100)), np.full(100, 0.3)) for _ in range(2)]
    >>> result = mimicry(rounds, f=2, k=8, pool=[Krum(f=2), Comed()], draws=4, budget=30)
    >>> result.attackers
    ('Adaptive on Krum', 'SubsampleMimic', 'BestResponse')
    """
    check_count("mimicry", "f", f, 1)
    members = paper_pool(f) if pool is None else list(pool)
    servers: dict[str, Rule] = {
        "Krum": Krum(f),
        f"Subsampled(Krum, {k})": Subsampled(Krum(f), k),
        f"MixTailor of {len(members)}": MixTailor(members),
    }
    attackers = ("Adaptive on Krum", "SubsampleMimic", "BestResponse")
    table: list[list[list[float]]] = [[[] for _ in attackers] for _ in servers]
    for number, (rows, gradient) in enumerate(rounds):
        for row, server in enumerate(servers.values()):
            attacks: tuple[Attack, ...] = (
                Adaptive(Krum(f)),
                SubsampleMimic(server, draws=draws),
                BestResponse(server, budget=budget),
            )
            for column, attack in enumerate(attacks):
                table[row][column].append(_payoff(server, attack, rows, gradient, f, draws, (seed, number)))
    if not table[0][0]:
        refuse("mimicry needs at least one round and got none.")
    found = np.array(table)
    count = found.shape[2]
    errors = found.std(axis=2, ddof=1) / math.sqrt(count) if count > 1 else np.zeros(found.shape[:2])
    return Mimicry(
        tuple(servers),
        attackers,
        _nested(found.mean(axis=2)),
        _nested(errors),
        _nested((found < 0.0).mean(axis=2)),
        count,
    )


def _nested(table: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(cell) for cell in row) for row in table)


def _payoff(server: Rule, attack: Attack, rows: Any, gradient: Any, f: int, draws: int, seed: tuple[int, int]) -> float:
    """The server's payoff under an attack, on average over its own draws; the attacker's randomness is another."""
    everything = np.vstack([rows, np.asarray(gradient)[None]]).astype(np.asarray(rows).dtype)
    whole = Updates.arrived(receive(everything))
    n = whole.n - 1
    whole.distances(2.0)
    honest, own = whole.take(np.arange(n - f)), whole.take(np.arange(n - f, n))
    points = attack.decide(honest, f, own=own, rng=np.random.default_rng((*seed, 1)))
    random = np.random.default_rng((*seed, 2))
    scene = Scene(honest, f, n, own, None, random)
    trials = Trials(server, scene, whole.row(n))
    if isinstance(server, MixTailor):
        outcomes = trials.outcomes(points)
        return float(np.dot(trials.shares, [outcome.payoff for outcome in outcomes]))
    each: list[Outcome] = [Trials(server, scene, whole.row(n)).outcome(points) for _ in range(draws)]
    return float(np.mean([outcome.payoff for outcome in each]))
