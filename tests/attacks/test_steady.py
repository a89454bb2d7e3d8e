"""Shift and Pump: pushes whose harm is in the direction."""

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import Pump, Shift


def test_shift_follows_its_formula() -> None:
    """All coordinates of a range fall by the same, and the push has the length that was asked for."""
    honest = rows()
    mean = honest.mean(axis=0)
    reach = np.median(np.linalg.norm(honest - mean, axis=1))
    made = Shift(0.4, coordinates=(10, 26))(honest, 2)
    wanted = mean.copy()
    wanted[10:26] -= 0.4 * reach / 4.0
    np.testing.assert_allclose(made, [wanted] * 2, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(Shift(-0.4)(honest, 1)[0] - mean), 0.4 * reach, rtol=1e-9)


def test_shift_takes_the_sharpness_of_a_network_past_what_a_rate_allows() -> None:
    """The loss (w1 w2 - 1)^2 / 2 is sharper the larger the weights: at its minimum 1 the curvature is w1^2 + w2^2.

    Two of ten push both weights by the noise's size, with the mean as the rule. Without the push the curvature stays
    near 2; with it training leaves every bound, at a rate of 0.3, which is stable for a curvature below 6.
    """

    def curvature(attack: Shift | None) -> float:
        random, w = np.random.default_rng(0), np.ones(2)
        for _ in range(400):
            gradient = (w[0] * w[1] - 1.0) * w[::-1]
            sent = gradient + random.normal(size=(8, 2)) * 0.2
            if attack is not None:
                sent = np.vstack([sent, attack(sent, 2)])
            w = w - 0.3 * mt.Mean()(sent)
            if w @ w > 6.0:
                break
        return float(w @ w)

    assert curvature(None) < 4.0 and curvature(Shift(1.0)) > 6.0


def test_pump_follows_its_formula() -> None:
    """Two rounds in d-space: the velocity of the results, projected on the top two directions of this round."""
    attack = Pump(1.5, directions=2, decay=0.7)
    state, results = attack.begin(), [np.arange(60.0), np.linspace(3.0, -3.0, 60)]
    for k, result in enumerate(results):
        state.observe(result)
        made = attack(rows(seed=k), 2, state=state)
    honest = rows(seed=1)
    mean = honest.mean(axis=0)
    basis = np.linalg.svd(honest - mean)[2][:2]
    push = basis.T @ (basis @ (0.7 * results[0] + results[1]))
    reach = np.median(np.linalg.norm(honest - mean, axis=1))
    np.testing.assert_allclose(made, [mean + 1.5 * reach * push / np.linalg.norm(push)] * 2, rtol=1e-8)
    assert state.round == 2


def test_pump_keeps_a_swing_going() -> None:
    """A server with momentum 0.9 on w^2 / 2 swings by what noise excites, and four times as far if two of ten pump.

    The pushes cancel over the rounds: their mean is far below their size.
    """

    def swing(attack: Pump | None) -> tuple[float, float]:
        random, w, velocity, reached, pushes = np.random.default_rng(0), 5.0, 0.0, [], []
        state = None if attack is None else attack.begin()
        for _ in range(300):
            sent = w + random.normal(size=(8, 1))
            if attack is not None:
                mine = attack(sent, 2, state=state)
                pushes.append(float(mine[0, 0] - sent.mean()))
                sent = np.vstack([sent, mine])
            result = mt.Mean()(sent)
            if state is not None:
                state.observe(result)
            velocity = 0.9 * velocity + float(result[0])
            w -= 0.1 * velocity
            reached.append(abs(w))
        cancelled = abs(np.mean(pushes)) / np.mean(np.abs(pushes)) if pushes else 0.0
        return float(np.mean(reached[-100:])), float(cancelled)

    pumped, cancelled = swing(Pump(2.0, directions=1))
    assert pumped > 3.0 * swing(None)[0] and cancelled < 0.1


def test_pump_without_a_swing_sends_the_mean() -> None:
    """Equal honest updates, or a velocity across all their differences."""
    honest = np.ones((4, 3))
    np.testing.assert_array_equal(Pump()(honest, 1), [[1.0, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Shift(float("nan")), "length as a finite number"),
        (lambda: Shift(coordinates=(3, 3)), "0 <= first < last"),
        (lambda: Shift(coordinates=7), "0 <= first < last"),
        (lambda: Shift(coordinates=(0, 99))(rows(), 2), "up to d = 60"),
        (lambda: Pump(0.0), "length"),
        (lambda: Pump(directions=0), "directions"),
        (lambda: Pump(decay=1.0), "0 <= decay < 1"),
    ],
)
def test_wrong_arguments_say_what_is_needed(make, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
