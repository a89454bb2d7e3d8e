"""RobustTailor: the server simulates attackers on data of its own, and draws by the solution of the simulated game."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mixtailor._checks import check_count, check_f, refuse
from mixtailor.attacks.alie import ALIE
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.tailored import Tailored
from mixtailor.attacks.trials import Trials
from mixtailor.attacks.zero import Zero
from mixtailor.intake import receive
from mixtailor.mixing import Entropy, MixTailor, SystemEntropy
from mixtailor.rules import Rule
from mixtailor.theory._needs import Floats
from mixtailor.theory.game import Solution, no_regret
from mixtailor.updates import Updates

__all__ = ["RobustTailor"]

SIMULATED: tuple[Attack, ...] = (
    *(Tailored(epsilon) for epsilon in (0.1, 0.5, 1.0, 10.0)),
    ALIE(1.5),
    Zero(),
)


@dataclass(frozen=True)
class RobustTailor:
    r"""A MixTailor whose probabilities are found again each round, in a game against simulated attackers.

    .. math:: A_{mj} = \frac{\langle U_{mj}, g \rangle}{\lVert g \rVert \max(\lVert U_{mj} \rVert, \lVert g \rVert)},
        \qquad p \approx \arg\max_p \min_j \sum_m p_m A_{mj}

    The server computes, from a little public data, updates that resemble those of its n workers. On these it plays
    every attack j that it thinks of against every rule m of the pool, whose result is :math:`U_{mj}`. Both sides of the
    game play exponential weights, and the server draws the rule of the round from the average of what it played.

    Parameters
    ----------
    pool : sequence of Rule
        The rules to draw from.
    f : int
        How many workers may be Byzantine.
    attacks : sequence of Attack
        The attackers to simulate; those with a target are given it by the caller, ``MixTailor(pool)`` for instance.
    steps : int
        Steps of the game.
    entropy : Entropy, optional
        Where the draws come from; the operating system by default.

    Examples
    --------
    Updates on which a small epsilon breaks Krum: hardly anything is left to it.

    >>> from mixtailor import Comed, Krum
    >>> public = 0.3 + np.random.default_rng(0).normal(size=(12, 100))
    >>> server = RobustTailor([Krum(f=2), Comed()], f=2)
    >>> rule = server.for_round(public)
    >>> type(rule).__name__, rule.probabilities[0] < 0.05
    ('MixTailor', True)

    Notes
    -----
    ``server.for_round(public)(updates)`` is one round. The updates that arrived play no part in the probabilities, so
    that an attacker cannot choose them; who knows the public data can compute them, and still not the draw. If the
    public data do not resemble the workers' data, the game is about something else. The payoff looks one step ahead.

    The sequel to the MixTailor paper [1]_ introduced this, with a game in which both sides see sampled payoffs; here
    all of them are computed, since a payoff costs one evaluation of a rule. Uniform probabilities are the best where
    nothing is known of the attacks; here it is those simulated that count.

    References
    ----------
    .. [1] Xie, Pethick, Ramezani-Kebrya, Cevher, "Mixed Nash for Robust Federated Learning", TMLR 2024.
    """

    pool: tuple[Rule, ...]
    f: int
    attacks: tuple[Attack, ...] = field(default=SIMULATED, kw_only=True)
    steps: int = field(default=500, kw_only=True)
    entropy: Entropy = field(default_factory=SystemEntropy, kw_only=True)

    def __post_init__(self) -> None:
        check_f("RobustTailor", self.f)
        if self.f < 1:
            refuse("RobustTailor needs f >= 1: without Byzantine workers there is nothing to simulate.")
        check_count("RobustTailor", "steps", self.steps)
        object.__setattr__(self, "pool", MixTailor(self.pool).rules)
        attacks = tuple(self.attacks) if isinstance(self.attacks, Iterable) else ()
        if not attacks or not all(isinstance(attack, Attack) for attack in attacks):
            refuse(f"RobustTailor needs attacks as a sequence of at least one attack and got {self.attacks!r}.")
        object.__setattr__(self, "attacks", attacks)

    def payoffs(self, public: Any, *, rng: np.random.Generator | int | None = None) -> Floats:
        """What each rule that the updates allow gets under each attack, rules x attacks.

        Parameters
        ----------
        public : array or tensor of shape (n, d), or a sequence
            Updates that the server computed itself, one for each worker; the mean of all counts as the gradient. The
            last f play those that the Byzantine workers would have sent.
        rng : Generator or int, optional
            Of the simulated attackers; fresh from the operating system by default.
        """
        everyone = Updates.arrived(receive(public))
        n = everyone.n
        if not self.f < n - self.f:
            refuse(f"RobustTailor(f={self.f}) needs more than 2f rows of public data, as many as workers, and got {n}.")
        everyone.distances(2.0)
        honest, own = everyone.take(np.arange(n - self.f)), everyone.take(np.arange(n - self.f, n))
        scene = Scene(honest, self.f, n, own, None, np.random.default_rng(rng))
        columns = []
        for attack in self.attacks:
            if attack.least_f() > self.f:
                continue
            trials = Trials(MixTailor(self.pool), scene, everyone.mean())
            points = attack.points(replace(scene, state=attack.begin()))
            columns.append([outcome.payoff for outcome in trials.outcomes(points)])
        if not columns:
            refuse(f"None of the attacks of RobustTailor can be run by f = {self.f} workers. Give others.")
        return np.array(columns).T

    def game(self, public: Any, *, rng: np.random.Generator | int | None = None) -> Solution:
        """How the simulated game ends on some updates; see `payoffs`."""
        return no_regret(self.payoffs(public, rng=rng), self.steps)

    def for_round(self, public: Any, *, rng: np.random.Generator | int | None = None) -> MixTailor:
        """The MixTailor of one round; see `payoffs`."""
        return MixTailor(self.pool, self.game(public, rng=rng).probabilities, self.entropy)
