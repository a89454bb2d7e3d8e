"""Harden a pool: play the game between server and attacker until neither finds a better move."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.attacks.alie import ALIE
from mixtailor.attacks.base import Attack
from mixtailor.attacks.best_response import BestResponse
from mixtailor.attacks.tailored import Tailored
from mixtailor.attacks.trials import Trials
from mixtailor.mixing import MixTailor
from mixtailor.rules import Rule
from mixtailor.theory._json import to_json
from mixtailor.theory._needs import Floats
from mixtailor.theory.certificate import Certificate
from mixtailor.theory.certify import certify
from mixtailor.theory.estimates import Interval
from mixtailor.theory.game import Solution, solve
from mixtailor.theory.states import Round, State, check_states, intervals, members

__all__ = ["Hardened", "Step", "harden", "judge"]

DRAWS = 2000  # of a bootstrap
FIRST: tuple[Attack, ...] = (Tailored(0.1), Tailored(10.0), ALIE(1.5))


@dataclass(frozen=True)
class Step:
    """One round of the double oracle.

    Attributes
    ----------
    moves : int
        How many attacks the game had.
    value : float
        Its value: what the server's mixture gets against all of them.
    response : float
        What the mixture gets against the best response to it.
    """

    moves: int
    value: float
    response: float


@dataclass(frozen=True, eq=False)
class Hardened:
    """A pool with the probabilities that the game gave it, and how it fares where it was not trained.

    Attributes
    ----------
    rule : MixTailor
        The pool with its probabilities.
    probabilities : tuple of float
        Of the pool's rules, in their order.
    steps : tuple of Step
        The double oracle, round by round.
    converged : bool
        Whether the last best response gained no more than the tolerance.
    held_out : dict
        The payoff on states that were not played, against a fresh `BestResponse` with twice the budget: of this
        mixture ("hardened"), of the uniform one ("uniform"), and of each rule alone.
    verdict : str
        What the held-out payoffs say.
    certificate : Certificate
        Of the hardened mixture, on the held-out states.
    """

    rule: MixTailor
    probabilities: tuple[float, ...]
    steps: tuple[Step, ...]
    converged: bool
    held_out: dict[str, Interval]
    verdict: str
    certificate: Certificate
    confidence: float = field(default=0.95)

    def to_json(self) -> str:
        """All of it, for machines; the rules by what they print as."""
        plain: dict[str, Any] = {
            "rules": [repr(rule) for rule in self.rule.rules],
            "probabilities": self.probabilities,
            "steps": [asdict(step) for step in self.steps],
            "converged": self.converged,
            "held_out": {name: asdict(interval) for name, interval in self.held_out.items()},
            "verdict": self.verdict,
            "certificate": asdict(self.certificate),
            "confidence": self.confidence,
        }
        return to_json(plain)

    def __str__(self) -> str:
        drawn = sorted(zip(self.probabilities, map(repr, self.rule.rules), strict=True), reverse=True)
        lines = [f"{self.verdict}"]
        lines += [f"  {share:7.1%}  {name}" for share, name in drawn if share > 0.0]
        last = self.steps[-1]
        state = "converged" if self.converged else "stopped"
        lines.append(
            f"  {state} after {len(self.steps)} steps with {last.moves} attacks: value {last.value:.4f}, best response "
            f"{last.response:.4f}"
        )
        lines.append(f"  on held-out states, against a fresh best response ({self.confidence:.0%} intervals):")
        for name, interval in sorted(self.held_out.items(), key=lambda item: -item[1].value)[:8]:
            lines.append(f"    {name[:56]:58}{interval.value:+.4f} [{interval.low:+.4f}, {interval.high:+.4f}]")
        return "\n".join(lines)


def harden(
    pool: Iterable[Rule],
    states: Iterable[State],
    *,
    f: int,
    held_out: Iterable[State],
    attacks: Sequence[Attack] = FIRST,
    budget: int = 100,
    rounds: int = 8,
    tolerance: float = 0.005,
    resamples: int = 1,
    pure: bool = True,
    confidence: float = 0.95,
    seed: int = 0,
) -> Hardened:
    r"""Find probabilities for a pool by playing the game, and judge them where they were not trained.

    .. math:: \max_p \min_a \sum_m p_m \, u(m, a), \qquad
        u = E \frac{\langle U, \nabla F \rangle}{\lVert \nabla F \rVert \max(\lVert U \rVert, \lVert \nabla F \rVert)}

    The double oracle: solve the game of all attacks so far, let `BestResponse` attack the mixture at every state, add
    its response as a new attack, until it gains no more than `tolerance`. That the result beats single rules on the
    attacks it was trained on is true by duality and shows nothing. So it is judged on other states, by a fresh
    `BestResponse` with twice the budget that knows its probabilities, beside the uniform mixture and every rule alone.

    Parameters
    ----------
    pool : iterable of rules
        The rules to mix.
    states : iterable of State
        To play on.
    f : int
        How many workers are Byzantine: the last f of each state.
    held_out : iterable of State
        To judge on: recorded in another run, or later.
    attacks : sequence of Attack
        The attacker's first moves; by default the tailored attack with two values of epsilon, and ALIE.
    budget : int
        Candidates of each best response.
    rounds : int
        The most rounds of the double oracle.
    tolerance : float
        The gain of a best response below which the value counts as found.
    resamples : int
        How many resamples of each state are played.
    pure : bool
        Whether every rule alone is judged too.
    confidence : float
        Of the intervals.
    seed : int
        Seed of all random choices.

    Examples
    --------
    >>> from mixtailor import Comed, Krum
    >>> rng = np.random.default_rng(0)
    >>> states = [State(0.5 + rng.normal(size=(3, 12, 40)), np.full(40, 0.5)) for _ in range(4)]
    >>> made = harden([Krum(f=2), Comed()], states[:2], f=2, held_out=states[2:], budget=30, rounds=2)
    >>> made.probabilities[1] > made.probabilities[0], sorted(made.held_out)
    (True, ['Comed()', 'Krum(f=2)', 'hardened', 'uniform'])

    Notes
    -----
    The attacker sees the state, so that a move is one set of updates for every state played. Best responses come from a
    search, so that the value is an upper bound of the game's. The payoff looks one step ahead: its order of rules and
    their order in training may differ (``docs/adversary.md``).

    References
    ----------
    .. [1] McMahan, Gordon, Blum, "Planning in the Presence of Cost Functions Controlled by an Adversary", ICML 2003.
    """
    who = "harden"
    playing, judging = check_states(who, states), check_states(who, held_out, resamples=2)
    check_count(who, "budget", budget, 2)
    check_count(who, "rounds", rounds)
    check_count(who, "resamples", resamples)
    if not attacks:
        refuse(f"{who} needs at least one attack to begin with and got none.")
    n = playing[0].workers
    rules, _ = members(pool, n)
    played = _rounds(playing, f, resamples, seed)
    payoffs = np.stack([_column(rules, attack, played) for attack in attacks])  # moves x rounds x rules
    steps: list[Step] = []
    converged = False
    for number in range(rounds):
        solution = solve(payoffs.mean(axis=1).T)
        response = _response(rules, solution, played, payoffs, budget, (seed, number))
        value = float(response.mean(axis=0) @ np.array(solution.probabilities))
        steps.append(Step(len(payoffs), solution.value, value))
        payoffs = np.concatenate([payoffs, response[None]])
        if value >= solution.value - tolerance:
            converged = True
            break
    shares = solve(payoffs.mean(axis=1).T).probabilities
    hardened = MixTailor(rules, shares)
    contenders: dict[str, Rule] = {"hardened": hardened, "uniform": MixTailor(rules)}
    if pure:
        contenders.update((repr(rule), rule) for rule in dict.fromkeys(rules))
    judged = _judged(contenders, judging, f, 2 * budget, resamples, seed + 1)
    rng = np.random.default_rng(seed + 1)
    found = {name: _interval(values, confidence, DRAWS, rng) for name, values in judged.items()}
    strongest = [*FIRST, BestResponse(hardened, budget=2 * budget)]
    return Hardened(
        rule=hardened,
        probabilities=tuple(shares),
        steps=tuple(steps),
        converged=converged,
        held_out=found,
        verdict=_verdict(judged, confidence, rng),
        certificate=certify(hardened, judging, strongest, f, confidence=confidence, seed=seed + 2),
        confidence=confidence,
    )


def judge(
    contenders: dict[str, Rule],
    states: Iterable[State],
    *,
    f: int,
    budget: int,
    resamples: int = 1,
    confidence: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Interval]:
    """The payoff of servers on states, each against a fresh best response that knows it; intervals over the rounds.

    Examples
    --------
    >>> from mixtailor import Comed, Krum
    >>> rng = np.random.default_rng(0)
    >>> states = [State(0.5 + rng.normal(size=(1, 12, 40)), np.full(40, 0.5)) for _ in range(3)]
    >>> found = judge({"Krum": Krum(f=2), "comed": Comed()}, states, f=2, budget=30)
    >>> found["Krum"].value < 0.0 < found["comed"].value
    True
    """
    judged = _judged(contenders, check_states("judge", states), f, budget, resamples, seed)
    rng = np.random.default_rng(seed)
    return {name: _interval(values, confidence, draws, rng) for name, values in judged.items()}


def _judged(
    contenders: dict[str, Rule], states: Sequence[State], f: int, budget: int, resamples: int, seed: int
) -> dict[str, Floats]:
    """The payoff of each server in each round, against a fresh best response that knows it."""
    played = _rounds(states, f, resamples, seed)
    judged = {}
    for name, server in contenders.items():
        values = []
        for place, here in enumerate(played):
            scene = here.fresh(np.random.default_rng((seed, place)))
            points = BestResponse(server, budget=budget).search(Trials(server, scene, here.gradient))
            values.append(float(points[0].facts["value"]))  # type: ignore[arg-type]  # the search puts a float there
        judged[name] = np.array(values)
    return judged


def _interval(values: Floats, confidence: float, draws: int, rng: np.random.Generator) -> Interval:
    (found,) = intervals(values, confidence=confidence, draws=draws, rng=rng)
    return found


def _rounds(states: Sequence[State], f: int, resamples: int, seed: int) -> list[Round]:
    return [
        state.round(resample, f, np.random.default_rng((seed, place, resample)))
        for place, state in enumerate(states)
        for resample in range(min(resamples, state.resamples))
    ]


def _column(rules: tuple[Rule, ...], attack: Attack, played: Sequence[Round]) -> Floats:
    """The payoff of every rule in every round under an attack: rounds x rules."""
    found = []
    for here in played:
        points = attack.decide(here.scene.honest, here.scene.f, own=here.scene.own, rng=here.scene.random)
        outcomes = Trials(MixTailor(rules), here.scene, here.gradient).outcomes(points)
        found.append([outcome.payoff for outcome in outcomes])
    return np.array(found)


def _response(
    rules: tuple[Rule, ...],
    solution: Solution,
    played: Sequence[Round],
    payoffs: Floats,
    budget: int,
    seed: tuple[int, int],
) -> Floats:
    """The best response to a mixture in every round, newly found or among the moves so far: rounds x rules."""
    shares = np.array(solution.probabilities)
    server = MixTailor(rules, solution.probabilities)
    results = []
    for place, here in enumerate(played):
        scene = here.fresh(np.random.default_rng((*seed, place)))
        points = BestResponse(server, budget=budget).search(Trials(server, scene, here.gradient))
        # Rules that the mixture does not draw count in the next one.
        outcomes = Trials(MixTailor(rules), scene, here.gradient).outcomes(points)
        candidates = np.vstack([payoffs[:, place], [outcome.payoff for outcome in outcomes]])
        results.append(candidates[int(np.argmin(candidates @ shares))])
    return np.array(results)


def _verdict(judged: dict[str, Floats], confidence: float, rng: np.random.Generator) -> str:
    """By the differences to the best of the others, round by round: all had the same rounds."""
    best = max((name for name in judged if name != "hardened"), key=lambda name: float(judged[name].mean()))
    gap = _interval(judged["hardened"] - judged[best], confidence, DRAWS, rng)
    gap_text = f"the difference is {gap.value:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]"
    if gap.low > 0.0:
        return f"better on held-out states than {best}, the best of the others: {gap_text}"
    if gap.high < 0.0:
        return f"worse on held-out states than {best}, so use that: {gap_text}"
    return f"not shown to differ on held-out states from {best}, the best of the others: {gap_text}"
