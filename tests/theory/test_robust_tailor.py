"""RobustTailor: a draw whose probabilities come from a simulated game."""

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.attacks import BestResponse, Tailored, TwinOutliers
from mixtailor.theory import RobustTailor, no_regret, payoff, solve

PUBLIC = 0.3 + np.random.default_rng(0).normal(size=(12, 80))
POOL = [mt.Krum(2), mt.Comed(), mt.GeometricMedian(), mt.TrimmedMean(2)]


def test_payoffs_are_those_of_the_definition() -> None:
    """Each rule on the honest public rows and the attack's, against the mean of all."""
    attacks = (Tailored(0.1), Tailored(10.0))
    found = RobustTailor(POOL, 2, attacks=attacks).payoffs(PUBLIC, rng=0)
    gradient = PUBLIC.mean(axis=0)
    for j, attack in enumerate(attacks):
        sent = attack(PUBLIC[:10], 2)
        results = np.array([rule(np.vstack([PUBLIC[:10], sent])) for rule in POOL])
        expected = payoff(results @ gradient, np.linalg.norm(results, axis=1), np.linalg.norm(gradient))
        np.testing.assert_allclose(found[:, j], expected, atol=1e-9)


def test_the_mixture_guarantees_what_the_game_promises() -> None:
    """Nearly the value of the exact solution, and more than the uniform mixture."""
    server = RobustTailor(POOL, 2, steps=5000)
    matrix = server.payoffs(PUBLIC, rng=0)
    shares = np.array(server.for_round(PUBLIC, rng=0).probabilities)
    assert shares.sum() == pytest.approx(1.0)
    guaranteed = (shares @ matrix).min()
    assert guaranteed >= solve(matrix).value - 0.02
    assert guaranteed > matrix.mean(axis=0).min() + 0.1


def test_probabilities_change_from_round_to_round() -> None:
    """With the public rows: where Krum is broken it is hardly drawn; where nothing is, all are alike."""
    server = RobustTailor([mt.Krum(2), mt.Comed()], 2)
    broken = server.for_round(PUBLIC).probabilities
    calm = server.for_round(np.ones((12, 80)) + 1e-6 * PUBLIC).probabilities
    assert broken[0] < 0.05 < calm[0]


def test_one_round_and_rules_that_n_forbids() -> None:
    """An attack that tries the pool may be simulated, too; Bulyan needs 11 rows, and no rule leaves at nine."""
    attacks = (Tailored(1.0), TwinOutliers(distance=10.0), BestResponse(mt.MixTailor([mt.Comed()]), budget=20))
    server = RobustTailor([mt.Comed(), mt.GeometricMedian()], 2, attacks=attacks)
    result = server.for_round(PUBLIC[:9], rng=0).aggregate(PUBLIC[:9])
    assert result.rule in (mt.Comed(), mt.GeometricMedian()) and np.isfinite(result.update).all()
    with pytest.raises(ValueError, match=r"needs at least 11 rows \(n >= 4f \+ 3, for Bulyan\(f=2\)\) and got 9"):
        RobustTailor([mt.Comed(), mt.Bulyan(2)], 2, attacks=attacks).for_round(PUBLIC[:9], rng=0)


def test_draws_come_from_the_entropy_that_is_given() -> None:
    """A seeded source goes on from round to round."""

    def drawn(seed):
        server = RobustTailor(POOL[1:], 2, entropy=mt.SeededEntropy(seed))
        return [repr(server.for_round(PUBLIC, rng=0).aggregate(PUBLIC).rule) for _ in range(12)]

    assert drawn(1) == drawn(1) != drawn(2) and len(set(drawn(1))) > 1


def test_no_regret_stays_within_its_bound() -> None:
    """The gap is at most the range times (sqrt(log m) + sqrt(log k)) / sqrt(2T), on random games."""
    random = np.random.default_rng(0)
    for m, k, steps in ((2, 2, 50), (5, 3, 200), (1, 4, 100), (8, 20, 1000)):
        matrix = 7.0 * random.normal(size=(m, k))
        found = no_regret(matrix, steps)
        bound = np.ptp(matrix) * (np.sqrt(np.log(max(m, 2))) + np.sqrt(np.log(k))) / np.sqrt(2 * steps)
        assert 0.0 <= found.gap <= bound
        assert solve(matrix).value - found.gap - 1e-9 <= found.value <= solve(matrix).value + 1e-9


def test_bad_input() -> None:
    """A sentence each."""
    for changes, sentence in (({"f": 0}, "f >= 1"), ({"f": 2, "attacks": ()}, "at least one attack")):
        with pytest.raises(ValueError, match=sentence):
            RobustTailor(POOL, **changes)
    with pytest.raises(ValueError, match="more than 2f rows of public data"):
        RobustTailor([mt.Comed()], 2).for_round(PUBLIC[:4])
    with pytest.raises(ValueError, match="can be run by f = 1"):
        RobustTailor([mt.Comed()], 1, attacks=(TwinOutliers(),)).for_round(PUBLIC)
