"""On gradients of a real network."""

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.attacks import Adaptive, Tailored

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def rounds():
    """The rows of 12 workers in 40 rounds of plain training on handwritten digits."""
    from mixtailor.simulation import Layout, WorkerGradients, build, digits

    data = digits()
    model = build("mlp", data, seed=0)
    gradients = WorkerGradients(model)
    weights = Layout.of(model).flatten(model).clone()
    random = np.random.default_rng(0)
    found = []
    for _ in range(40):
        matrix, _ = gradients(weights, *data.train(random.integers(len(data), size=(12, 16))), seed=0)
        found.append(matrix.numpy().copy())
        weights = weights - 0.2 * matrix[:10].mean(0)
    return found


def test_a_small_epsilon_breaks_krum_and_not_the_median(rounds) -> None:
    """n = 12, f = 2, epsilon = 0.1: Krum picks a Byzantine row in more than 90 % of rounds; comed does not follow."""
    picked, followed = 0, 0
    for rows in rounds:
        honest = rows[:10]
        received = np.vstack([honest, Tailored(0.1)(honest, 2)])
        picked += mt.Krum(2).aggregate(received).selected[0] >= 10
        followed += float(mt.Comed()(received) @ honest.mean(axis=0)) < 0
    assert picked > 0.9 * len(rounds) and followed == 0


def test_the_adaptive_attack_finds_it(rounds) -> None:
    """Against Krum it makes the answer ascend, and its rows always point against the mean."""
    for rows in rounds[::8]:
        made = Adaptive(mt.Krum(2)).craft(rows[:10], 2)
        assert made.facts["value"] < 0 and (made.rows @ rows[:10].mean(axis=0) < 0).all()
