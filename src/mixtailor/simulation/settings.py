"""What a training run is made of, apart from its data, network, rule and attack."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from mixtailor._checks import check_count
from mixtailor.simulation.rates import Constant, Rate

__all__ = ["Identities", "Sends", "Settings", "Spread"]

Identities = Literal["fixed", "changing"] | int
Sends = Literal["gradients", "deltas", "models"]
Spread = Literal["all", "honest"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    r"""Who takes part, how the server steps, and how long.

    The server's step with gradients, U being the rule's result:

    .. math:: v \leftarrow \mu v + U + \lambda w, \qquad w \leftarrow w - \eta_t v

    With models the aggregate is the server's next model, ``w <- U``, unless `replaces_model` is switched off.

    Parameters
    ----------
    n : int
        How many workers there are.
    byzantine : int
        How many of them really are Byzantine, which may differ from the f of the rule.
    rounds : int
        How many steps the server takes.
    batch : int
        Examples per worker and round.
    seed : int
        Everything that the run draws follows from it, each purpose from a stream of its own.
    learning_rate : float
        eta, before the schedule `rate`. With deltas it is the server's share of the way to the result: give 1.
    momentum, weight_decay : float
        mu and lambda. With deltas and models the workers decay the weights, in their own steps.
    nesterov : bool
        Whether the server's momentum is Nesterov's, ``w <- w - eta_t (U + mu v)``. With ``sends="deltas"``, a learning
        rate of 0.7 and a momentum of 0.9 this is DiLoCo's outer step [2]_.
    rate : Rate
        The schedule: what eta is multiplied by in each round.
    worker_momentum : float
        beta of the workers' own momentum, ``m_i <- beta m_i + (1 - beta) g_i``, of which they send m_i.
    identities : {"fixed", "changing"} or int
        Whether the same workers are Byzantine in all rounds, others in each round, or others every so many rounds.
        Which ones is drawn from the seed.
    participation : float
        The share of workers, drawn again, that take part in a round.
    spread : {"all", "honest"}
        Whether Byzantine workers hold a part of the data too, or all examples go to the honest ones.
    sends : {"gradients", "deltas", "models"}
        What the workers send; the last two after `local_steps` steps of their own.
    replaces_model : bool
        Whether an aggregate of models becomes the server's model, as in the MixTailor paper. Switched off, the server
        steps towards it: the difference counts as a gradient, with learning rate and momentum.
    local_steps : int
        How many steps each worker takes by itself before it sends.
    local_learning_rate, local_momentum : float
        Of the workers' own steps.
    evaluate_every : int
        Rounds between evaluations; the last round is evaluated in any case.
    root : int
        How many clean examples the server holds itself, for rules that trust its own update.

    Examples
    --------
    >>> Settings(n=12, byzantine=2, rounds=100).taking_part
    12

    References
    ----------
    .. [1] Karimireddy, He, Jaggi, "Learning from History for Byzantine Robust Optimization", ICML 2021.
    .. [2] Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023,
       arXiv:2311.08105.
    """

    n: int = 12
    byzantine: int = 2
    rounds: int = 1_000
    batch: int = 50
    seed: int = 0
    learning_rate: float = 0.001
    momentum: float = 0.9
    weight_decay: float = 1e-4
    rate: Rate = field(default_factory=Constant)
    worker_momentum: float = 0.0
    identities: Identities = "fixed"
    participation: float = 1.0
    spread: Spread = "all"
    sends: Sends = "gradients"
    replaces_model: bool = True
    local_steps: int = 1
    local_learning_rate: float = 0.1
    local_momentum: float = 0.0
    evaluate_every: int = 100
    root: int = 100
    nesterov: bool = False

    @property
    def taking_part(self) -> int:
        """How many workers take part in each round."""
        return max(1, math.ceil(self.participation * self.n - 1e-9))

    @property
    def spell(self) -> int | None:
        """For how many rounds the same workers are Byzantine; None where they always are."""
        if self.identities == "fixed":
            return None
        return 1 if self.identities == "changing" else self.identities

    def __post_init__(self) -> None:
        for name in ("n", "rounds", "batch", "evaluate_every", "local_steps", "root"):
            check_count("A run", name, getattr(self, name))
        for name in ("byzantine", "seed"):
            check_count("A run", name, getattr(self, name), 0)
        for name in ("momentum", "worker_momentum", "local_momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"A run needs 0 <= {name} < 1 and got {name} = {getattr(self, name)}.")
        for name in ("learning_rate", "local_learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"A run needs {name} > 0 and got {name} = {getattr(self, name)}.")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"A run needs weight_decay >= 0 and got weight_decay = {self.weight_decay}.")
        if not 0 < self.participation <= 1:
            raise ValueError(f"A run needs 0 < participation <= 1 and got participation = {self.participation}.")
        if self.byzantine > self.taking_part - 2:
            raise ValueError(
                "A run needs two honest workers in every round (byzantine <= ceil(participation * n) - 2) and got "
                f"byzantine = {self.byzantine} and {self.taking_part} of {self.n} workers taking part. Lower byzantine."
            )
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs momentum > 0 and got momentum = 0.")
        if self.sends == "gradients" and self.local_steps > 1:
            raise ValueError(
                f'A run with local_steps = {self.local_steps} sends no gradients. Give sends="deltas" or "models".'
            )
        if self.sends != "gradients" and self.worker_momentum:
            raise ValueError(
                "worker_momentum is of gradients. With deltas or models, give local_momentum, or sends='gradients'."
            )
        if not (self.identities in ("fixed", "changing") or (type(self.identities) is int and self.identities >= 1)):
            raise ValueError(
                "A run needs identities='fixed', 'changing' or a number of rounds >= 1 and got "
                f"identities = {self.identities!r}."
            )
        if self.spread == "honest" and self.identities != "fixed":
            raise ValueError(
                "spread='honest' gives Byzantine workers no data, so that they cannot be honest in another round. "
                "Give identities='fixed' or spread='all'."
            )
