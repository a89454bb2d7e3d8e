"""How many rules a pool really has, on recorded states."""

from collections.abc import Iterable, Sequence

import numpy as np

from mixtailor._checks import refuse
from mixtailor.attacks.base import Attack
from mixtailor.attacks.trials import Trials
from mixtailor.mixing import MixTailor
from mixtailor.rules import Rule
from mixtailor.theory.clusters import EffectiveSize, cluster_products
from mixtailor.theory.states import State, check_states, members
from mixtailor.updates import Point

__all__ = ["effective_size"]


def effective_size(
    pool: Iterable[Rule] | Rule,
    states: Iterable[State],
    *,
    f: int,
    attacks: Sequence[Attack | None] = (None,),
    tolerance: float = 0.1,
    seed: int = 0,
) -> EffectiveSize:
    r"""How many clusters the results of a pool's rules form.

    .. math:: D_{ab} = \mathrm{median}_s \frac{\lVert U_a(s) - U_b(s) \rVert}{\lVert \nabla F(s) \rVert}

    Rules of a cluster have similar results in at least half of the states, and are broken alike: what counts in
    ``M/q > 1 + lambda L / beta`` is clusters.

    Parameters
    ----------
    pool : MixTailor, iterable of rules, or one rule
        The rules to cluster.
    states : iterable of State
        The first resample of each is used.
    f : int
        How many workers are Byzantine under an attack: the last f of each state.
    attacks : sequence of Attack or None
        Each gives the states once more, with the attack's updates; None is no attack.
    tolerance : float
        How near is alike, as a part of ``|grad F|``.
    seed : int
        Of the attackers, and of rules that draw.

    Examples
    --------
    Four Krums in different norms mostly choose the same update.

    >>> from mixtailor import Comed, Krum
    >>> rng = np.random.default_rng(0)
    >>> updates = 1.0 + rng.normal(size=(3, 1, 12, 30)) * np.linspace(0.1, 1.0, 12)[:, None]
    >>> states = [State(block, np.ones(30)) for block in updates]
    >>> effective_size([*(Krum(f=2, p=p) for p in (1, 2, 3, 4)), Comed()], states, f=2).labels
    (0, 0, 0, 0, 1)
    """
    known = check_states("effective_size", states)
    if not attacks:
        refuse("effective_size needs at least one of attacks, None for no attack, and got none.")
    rules, shares = members(pool, known[0].workers)
    distinct = list(dict.fromkeys(rules))
    place = [distinct.index(rule) for rule in rules]
    products, scales = [], []
    for number, state in enumerate(known):
        for attack in attacks:
            here = state.round(0, f, np.random.default_rng((seed, number)))
            scene = here.scene
            points: Sequence[Point]
            if attack is None:
                assert scene.own is not None
                points = [scene.own.row(i) for i in range(f)]
            else:
                points = attack.decide(scene.honest, f, own=scene.own, rng=scene.random)
            trials = Trials(MixTailor(rules), scene, here.gradient)
            results = [trials.result(points, rule) for rule in distinct]
            products.append(results[0].updates.inner(*results)[np.ix_(place, place)])
            scales.append(state.length)
    return cluster_products(np.array(products), probabilities=shares, tolerance=tolerance, scales=scales)
