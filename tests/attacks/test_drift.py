"""Drift and ExpectedDrift: pushes that add up over rounds."""

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import ALIE, Drift, ExpectedDrift
from mixtailor.rules.part import Asks


def test_drift_follows_its_formula() -> None:
    """Two rounds in d-space: the signs are those of the running mean, not of this round's."""
    attack = Drift(1.5, decay=0.7)
    state = attack.begin()
    first, second = rows(seed=0) - 0.5, rows(seed=1) - 0.5
    attack(first, 2, state=state)
    made = attack(second, 2, state=state)
    running = 0.7 * first.mean(axis=0) + 0.3 * second.mean(axis=0)
    assert (np.sign(running) != np.sign(second.mean(axis=0))).any()
    wanted = second.mean(axis=0) - 1.5 * second.std(axis=0) * np.sign(running)
    np.testing.assert_allclose(made, [wanted] * 2, rtol=1e-9, atol=1e-12)
    assert state.round == 2


def test_drift_without_a_past_is_alie_towards_zero() -> None:
    """Where all coordinates of the mean are positive, the rows are ALIE's."""
    honest = np.abs(rows()) + 1.0
    np.testing.assert_allclose(Drift(1.0)(honest, 1), ALIE(z=1.0)(honest, 1), rtol=1e-12)


def test_drift_reverses_training_where_alie_does_not() -> None:
    """Means of +0.3 and -0.3 under unit noise, five of eleven updates Byzantine with z = 1: the mean moves by nearly
    half a deviation. Drift turns the descent of every coordinate around; ALIE turns one half and speeds up the other,
    so that on average the descent stays as it is.
    """
    random = np.random.default_rng(0)
    gradient = np.where(np.arange(400) % 2, 0.3, -0.3)

    def descent(attack: mt.attacks.Attack) -> float:
        state, total = attack.begin(), 0.0
        for _ in range(30):
            honest = gradient + random.normal(size=(6, 400))
            total += np.vstack([honest, attack(honest, 5, state=state)]).mean(axis=0) @ gradient
        return float(total / 30 / (gradient @ gradient))

    assert descent(ALIE(z=1.0)) == pytest.approx(1.0, abs=0.1)
    assert descent(Drift(1.0)) < -0.1


def test_drift_along_the_mean_and_in_disguise() -> None:
    """By hand: the push along the running mean has the honest rows' reach; each row copies another honest deviation."""
    honest = rows()
    mean, deviation = honest.mean(axis=0), honest.std(axis=0)
    made = Drift(0.5, along=0.4, disguise=0.8)(honest, 3, rng=0)
    base = mean - 0.5 * deviation * np.sign(mean) - 0.4 * np.linalg.norm(deviation) * mean / np.linalg.norm(mean)
    apart = np.abs((made - base)[:, None] - 0.8 * (honest - mean)[None]).max(axis=2)
    assert apart.min(axis=1).max() < 1e-12 and len(set(apart.argmin(axis=1))) == 3


@pytest.mark.parametrize(
    "options",
    [{"z": float("nan")}, {"along": float("inf")}, {"disguise": True}, {"decay": 1.0}, {"decay": -0.1}, {"ddof": 2}],
)
def test_drift_refuses(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="Drift needs"):
        Drift(**options)  # type: ignore[arg-type]  # of a sweep over wrong values


class Guard:
    """A server that remembers: the mean, of updates cut off at 6 reaches, without workers that once went beyond 2.

    They are excluded from the next round on. One strike counts 6, a push that stays below 2 counts in every round.
    """

    def __init__(self) -> None:
        self.banned: set[object] = set()

    def aggregate(self, updates, *, workers, **request):
        middle = np.median(updates, axis=0)
        reach = np.linalg.norm(updates - middle, axis=1)
        limit = np.median(reach)
        kept = [i for i, name in enumerate(workers) if name not in self.banned]
        cut = middle + (updates - middle) * np.minimum(1.0, 6.0 * limit / reach)[:, None]
        self.banned |= {name for name, far in zip(workers, reach, strict=True) if far > 2.0 * limit}
        return mt.Mean().aggregate(cut[kept])


def test_a_longer_horizon_spares_what_a_strike_would_lose() -> None:
    """Looking one round ahead the attack strikes and is banned; looking eight rounds ahead it stays unbanned."""
    honest, names = 0.2 + np.random.default_rng(3).normal(size=(9, 40)), tuple(range(12))
    banned = {}
    for horizon in (1, 8):
        server = Guard()
        attack = ExpectedDrift(server, horizon=horizon, budget=60)
        made = attack.craft(honest, 3, rng=0, workers=names)
        assert not server.banned, "the attack tries a copy, never the server"
        server.aggregate(np.vstack([honest, made.rows]), workers=names)
        banned[horizon] = server.banned
        assert made.facts["value"] < 0.0 and made.facts["evaluations"] == 60 * horizon
    assert banned[1] == {9, 10, 11} and not banned[8]


def test_a_plan_lasts_for_its_horizon() -> None:
    """It is made in rounds 0, 3, 6, ...; the rows follow it in the rounds between."""
    attack = ExpectedDrift(mt.TrimmedMean(f=2), horizon=3, budget=10)
    state = attack.begin()
    plans = [attack.craft(rows(seed=i), 2, state=state, rng=i).facts["plan"] for i in range(6)]
    assert plans[0] == plans[1] == plans[2] and plans[3] == plans[4] == plans[5] and plans[0] != plans[3]


def test_expected_drift_reaches_further_than_drift_against_a_trimmed_mean() -> None:
    """It starts with Drift's rows, and finds more; the rows are what the plan says."""
    honest = 0.3 + np.random.default_rng(0).normal(size=(10, 300))
    rule, mean = mt.TrimmedMean(f=2), honest.mean(axis=0)
    moved = [
        float((rule(np.vstack([honest, attack(honest, 2, rng=0)])) - mean) @ mean)
        for attack in (Drift(1.0), ExpectedDrift(rule, horizon=4, budget=60))
    ]
    assert moved[1] < moved[0] < 0.0
    first, second, third = ExpectedDrift(rule, horizon=4, budget=60).craft(honest, 2, rng=0).facts["plan"]
    made, deviation = ExpectedDrift(rule, horizon=4, budget=60)(honest, 2, rng=0), honest.std(axis=0)
    base = mean - first * deviation * np.sign(mean) - second * np.linalg.norm(deviation) * mean / np.linalg.norm(mean)
    disguises = third * (honest - mean)
    assert np.abs((made - base)[:, None] - disguises[None]).max(axis=2).min(axis=1).max() < 1e-9


def test_expected_drift_leaves_the_servers_draws_alone() -> None:
    """The attacker draws itself: the server's next draw is what it would have been."""
    honest = rows()

    def draws(attacked: bool) -> list[str]:
        server = mt.MixTailor([mt.Krum(2), mt.Comed(), mt.TrimmedMean(2)], entropy=mt.SeededEntropy(5))
        names = []
        for i in range(6):
            if attacked:
                ExpectedDrift(server, horizon=2, budget=4)(honest, 2, rng=i)
            names.append(repr(server.aggregate(honest).rule))
        return names

    assert draws(True) == draws(False)


def test_a_rule_that_starts_from_the_last_result_gets_it() -> None:
    """Centered clipping stays within tau of where it starts: the distance to a far last result is most of the value."""
    honest = rows()
    attack = ExpectedDrift(mt.CenteredClipping(tau=1.0, iterations=1), horizon=1, budget=6)
    near, far = attack.begin(), attack.begin()
    near.observe(honest.mean(axis=0))
    far.observe(honest.mean(axis=0) + 1e3)
    values = [attack.craft(honest, 2, state=state, rng=0).facts["value"] for state in (near, far)]
    assert abs(values[0]) < 1.0 < 100.0 < abs(values[1])


def test_names_are_counted() -> None:
    with pytest.raises(ValueError, match="names of 10 honest and 2 Byzantine workers and got 3"):
        ExpectedDrift(mt.Comed()).craft(rows(), 2, workers=[1, 2, 3])


class AnyRows(mt.Rule):
    """A mean of any updates, for rules that note what they are given."""

    requirement = "n >= 1"
    cost = "O(nd)"

    def min_rows(self):
        return 1

    def tolerates(self, n):
        return n - 1


@pytest.mark.parametrize(("asked", "same"), [("trusted", True), ("previous", False)])
def test_an_expected_drift_plans_with_the_server_s_reference(asked, same) -> None:
    """A trusted one in every simulated round; else the first, and after it the result before."""
    seen = []

    class Noting(AnyRows):
        def asks(self):
            return Asks(reference=asked)

        def decide(self, updates):
            seen.append(updates.at(updates.reference))
            return updates.mean()

    trusted = np.full(60, 7.0)
    attack = ExpectedDrift(Noting(), horizon=3, budget=1)
    attack(rows(), 2, rng=0, reference=trusted)
    np.testing.assert_array_equal(seen[0], trusted)
    assert len(seen) == 3 and np.array_equal(seen[2], trusted) == same


def test_in_every_simulated_round_the_attacker_knows_the_mean_of_that_round() -> None:
    """The first start is one deviation against the signs: the same push in each round, from another mean."""
    seen = []

    class Noting(AnyRows):
        def decide(self, updates):
            seen.append(np.stack([updates.at(updates.row(i)) for i in range(updates.n)]))
            return updates.mean()

    honest = rows() - 0.5
    value = ExpectedDrift(Noting(), horizon=3, budget=1).craft(honest, 2, rng=0).facts["value"]
    mean, push = honest.mean(axis=0), honest.std(axis=0) * np.sign(honest.mean(axis=0))
    drift = 0.0
    for matrix in seen:
        own = matrix[:10].mean(axis=0)
        assert np.abs(own - mean).max() > 0.01
        np.testing.assert_allclose(matrix[10:], [own - push] * 2, rtol=1e-9, atol=1e-12)
        drift += (matrix.mean(axis=0) - own) @ mean
    assert len(seen) == 3 and value == pytest.approx(drift / np.linalg.norm(mean) / np.linalg.norm(push))
