"""The constants of the moments."""

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.attacks import BestResponse, Decoy, Tailored, TwinOutliers
from mixtailor.theory import State, estimate_moments, krum_coefficient, moment_constant


@pytest.mark.parametrize("r", [2, 3, 4])
@pytest.mark.parametrize("attack", [Tailored(0.1), Tailored(10.0), TwinOutliers(distance=1e3), Decoy(distance=5.0)])
def test_no_attack_on_krum_exceeds_the_constant(attack, r) -> None:
    """``|U|^r <= C mean_i |V_i|^r`` in every single round, which is more than in expectation."""
    for seed in range(10):
        honest = 0.2 + np.random.default_rng(seed).normal(size=(10, 30))
        result = mt.Krum(2)(np.vstack([honest, attack(honest, 2, rng=seed)]))
        moment = float((np.linalg.norm(honest, axis=1) ** r).mean())
        assert float(np.linalg.norm(result)) ** r <= moment_constant(krum_coefficient(12, 2), r) * moment


def test_the_constant_is_reached_where_the_proof_says() -> None:
    """A point at distance sqrt(kappa v) beyond the mean, on its ray: the inequality is an equality at its best q."""
    kappa = 3.0
    mean, variance = 1.0, kappa  # |m|^2 = q / (1 + kappa), hence v = kappa |m|^2
    longest = mean + np.sqrt(kappa * variance)
    assert longest**2 == pytest.approx(moment_constant(kappa, 2) * (mean**2 + variance))
    with pytest.raises(ValueError, match="r >= 2"):
        moment_constant(1.0, 1.0)


def test_constants_of_workers_of_known_lengths() -> None:
    """Gradients of lengths 1, 1 and 2 at one state and 3, 1, 1 at another: K is the worst of both."""
    unit = np.zeros((4, 4, 5))
    unit[..., 0] = 1.0
    states = [State(unit * np.array(lengths)[None, :, None], np.ones(5)) for lengths in ([1, 1, 2, 9], [3, 1, 1, 9])]
    found = estimate_moments(states, f=1)
    for k, r in enumerate((2, 3, 4)):
        expected = [
            max(1 / (2 + 2**r), 3**r / (3**r + 2)) * 3,
            max(1 / (2 + 2**r), 1 / (3**r + 2)) * 3,
            max(2**r / (2 + 2**r), 1 / (3**r + 2)) * 3,
        ]
        assert [interval.value for interval in found.constants[k]] == pytest.approx(expected)
        assert found.largest[k].value == pytest.approx(max(expected))
        assert found.largest[k].low == pytest.approx(max(expected)) == found.largest[k].high  # no noise
    assert (found.states, found.workers, found.resamples) == (2, 3, 4)


def test_intervals_hold_the_truth() -> None:
    """Worker 0 has twice the noise: K_2 = 4 / mean(4, 1, 1, 1, 1, 1); in 40 of 60 runs at least, at 95 %."""
    truth, held = 4 / (9 / 6), 0
    for seed in range(60):
        rows = np.random.default_rng(seed).normal(size=(20, 7, 40))
        rows[:, 0] *= 2.0
        interval = estimate_moments([State(rows, np.ones(40))], f=1, draws=200).constants[0][0]
        held += interval.low <= truth <= interval.high
    assert held >= 50


def test_the_strongest_attack_stays_below_the_proved_constant() -> None:
    """On recorded states, as `certify` takes them."""
    rows = 0.3 + np.random.default_rng(0).normal(size=(1, 12, 40))
    honest, rule = rows[0, :10], mt.Comed()
    sent = BestResponse(rule, budget=40)(honest, 2, rng=0)
    result = rule(np.vstack([honest, sent]))
    assert float(result @ result) <= moment_constant(rule.kappa(12, 2, 40), 2) * float((honest**2).sum(axis=1).mean())


def test_bad_input() -> None:
    """A sentence each."""
    state = State(np.ones((3, 4, 2)), np.ones(2))
    for changes, sentence in (({"f": 4}, "f below the 4 workers"), ({"f": 1, "confidence": 1.0}, "confidence below 1")):
        with pytest.raises(ValueError, match=sentence):
            estimate_moments([state], **changes)
    with pytest.raises(ValueError, match="not all zero"):
        estimate_moments([State(np.zeros((3, 4, 2)), np.ones(2))], f=1)
