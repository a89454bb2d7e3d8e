"""The best response to a mixture."""

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import ALIE, BestResponse, KnowsPool, Tailored
from mixtailor.attacks._evolution import evolve, first_below
from mixtailor.attacks._frame import frame_of, principal
from mixtailor.attacks._search_starts import SIMPLE
from mixtailor.attacks.base import Scene
from mixtailor.attacks.best_response import quantile
from mixtailor.intake import receive
from mixtailor.theory import payoff
from mixtailor.updates import Updates

RULES = [mt.Krum(2), mt.Comed(), mt.GeometricMedian(), mt.TrimmedMean(2)]
SHARES = (0.4, 0.3, 0.2, 0.1)


def payoffs(honest, sent):
    mean = honest.mean(axis=0)
    answers = np.array([rule(np.vstack([honest, sent])) for rule in RULES])
    return payoff(answers @ mean, np.linalg.norm(answers, axis=1), np.linalg.norm(mean))


@pytest.mark.parametrize("seed", range(3))
def test_the_value_is_the_expected_payoff_and_below_every_start(seed) -> None:
    """Recomputed from the rows that are sent."""
    honest = rows(seed=seed)
    starts = (Tailored(0.1), Tailored(1.0), ALIE(1.5))
    made = BestResponse(mt.MixTailor(RULES, SHARES), starts=starts, budget=120).craft(honest, 2, rng=seed)
    facts = made.facts
    assert facts["value"] == pytest.approx(float(np.dot(SHARES, payoffs(honest, made.rows))), abs=1e-6)
    assert list(facts["payoffs"].values()) == pytest.approx(payoffs(honest, made.rows), abs=1e-6)
    for start in starts:
        assert facts["value"] < float(np.dot(SHARES, payoffs(honest, start(honest, 2))))
    assert facts["improved"] and facts["improvement"] == pytest.approx(facts["start_value"] - facts["value"])
    assert facts["candidates"] == 120 and facts["evaluations"] == 120 * len(RULES)
    tried, values = zip(*facts["history"], strict=True)
    assert list(tried) == sorted(tried) and list(values) == sorted(values, reverse=True)
    assert values[-1] == facts["value"]


@pytest.mark.parametrize("mean", [0.1, 0.3, 1.0])
def test_it_does_more_harm_than_a_scan_of_200_epsilons_and_every_default_start(mean) -> None:
    """On the pool that we recommend, where simple attacks are hard to beat; recomputed from the rows."""
    honest = rows(seed=4) - 0.5 + mean
    server = mt.MixTailor(mt.default_pool(2))
    gradient = honest.mean(axis=0)

    def expected(sent):
        results = np.array([rule(np.vstack([honest, sent])) for rule in server.rules])
        found = payoff(results @ gradient, np.linalg.norm(results, axis=1), np.linalg.norm(gradient))
        return float(np.dot(server.shares(12), found))

    made = BestResponse(server).craft(honest, 2, rng=0)
    assert made.facts["value"] == pytest.approx(expected(made.rows), abs=1e-6)
    simple = [attack for attack in SIMPLE if attack.least_f() <= 2]
    for start in (*map(Tailored, np.geomspace(1e-2, 1e2, 200)), *simple):
        assert made.facts["value"] <= expected(start(honest, 2, rng=0)) + 1e-6, start
    for size in np.geomspace(1e-2, 1e2, 20):  # along the mean, not against it
        assert made.facts["value"] <= expected(np.tile(size * gradient, (2, 1))) + 1e-6, size


def test_a_search_that_returns_its_start_says_so() -> None:
    """With no candidates left beyond the starts there is nothing to improve with."""
    starts = (Tailored(0.1), Tailored(1.0))
    facts = BestResponse(mt.MixTailor(RULES), starts=starts, budget=2).craft(rows(), 2).facts
    assert not facts["improved"] and facts["improvement"] == 0.0
    assert facts["start"] in map(repr, starts)


def test_more_budget_does_not_hurt_on_average() -> None:
    """The same starts and the same randomness."""
    values = {budget: [] for budget in (30, 200)}
    for seed in range(3):
        for budget, found in values.items():
            attack = BestResponse(mt.MixTailor(RULES[:2]), budget=budget)
            found.append(attack.craft(rows(seed=seed), 2, rng=0).facts["value"])
    assert np.mean(values[200]) < np.mean(values[30])


def test_probabilities_count_and_knowledge_limits_them() -> None:
    """A mixture that hardly ever draws Krum is met as the others; who knows the pool alone takes it as even."""
    honest = rows(seed=2)
    server = mt.MixTailor(RULES, (0.01, 0.33, 0.33, 0.33))
    informed = BestResponse(server, budget=80).craft(honest, 2, rng=0)
    pool_only = (KnowsPool() | BestResponse(server, budget=80)).craft(honest, 2, rng=0)
    against = [float(np.dot(server.probabilities, payoffs(honest, made.rows))) for made in (informed, pool_only)]
    assert against[0] < against[1]


def test_a_quantile_in_place_of_the_expectation() -> None:
    """1 is the largest payoff over the rules; the definition by hand on three values."""
    honest = rows(seed=1)
    made = BestResponse(mt.MixTailor(RULES), quantile=1.0, budget=60).craft(honest, 2, rng=0)
    assert made.facts["value"] == pytest.approx(float(payoffs(honest, made.rows).max()), abs=1e-6)
    values, shares = [0.3, -0.1, 0.2], [0.5, 0.25, 0.25]
    assert [quantile(values, shares, level) for level in (0.0, 0.25, 0.26, 0.5, 0.51, 1.0)] == [
        -0.1,
        -0.1,
        0.2,
        0.2,
        0.3,
        0.3,
    ]


def test_other_homes_and_one_byzantine_row() -> None:
    """Tensors and layers; and f = 1, where twins cannot start."""
    torch = pytest.importorskip("torch")
    honest = rows(dtype=np.float32)
    attack = BestResponse(mt.MixTailor(RULES[:2]), budget=30)
    plain = attack(honest, 2, rng=0)
    tensor = attack(torch.from_numpy(honest), 2, rng=0)
    np.testing.assert_allclose(tensor.numpy(), plain, rtol=1e-5)
    layers = attack([[row[:20], row[20:].reshape(4, 10)] for row in honest], 2, rng=0)
    np.testing.assert_allclose(np.concatenate([layers[0][0], layers[0][1].ravel()]), plain[0], rtol=1e-4, atol=1e-5)
    assert BestResponse(mt.Krum(1), budget=30)(honest, 1, rng=0).shape == (1, 60)


def test_the_frame_holds_the_directions_that_it_names() -> None:
    """Each of length one, against numpy: mean, spread, turned spread, principal directions."""
    honest = rows(seed=7)
    scene = Scene(Updates.arrived(receive(honest)), 2, 12, None, None, np.random.default_rng(0))
    frame = frame_of(scene, 2)
    found = np.array([frame.updates.at(frame.updates.combine(row)) for row in frame.directions])
    mean, deviation = honest.mean(axis=0), honest.std(axis=0)
    _, _, right = np.linalg.svd(honest - mean, full_matrices=False)
    expected = [mean, deviation, -np.sign(mean) * deviation, right[0], right[1]]
    for name, row, vector in zip(frame.names, found, expected, strict=True):
        cosine = row @ vector / np.linalg.norm(vector)
        assert np.linalg.norm(row) == pytest.approx(1.0) and abs(cosine) == pytest.approx(1.0), name
    assert frame.unit == pytest.approx(np.sqrt(((honest - mean) ** 2).sum(axis=1).mean()))
    assert len(principal(Updates.arrived(receive(np.ones((5, 3)))), 3)[0]) == 0


def test_equal_honest_rows_have_no_directions_but_the_mean() -> None:
    """The search goes on along it."""
    made = BestResponse(mt.MixTailor([mt.Mean(), mt.Comed()]), budget=40).craft(np.ones((6, 4)), 2, rng=0)
    assert np.isfinite(made.rows).all() and made.facts["value"] < 1.0


def test_the_evolution_strategy() -> None:
    """A quadratic with a known minimum, within its budget and no further; and the record's first passage."""
    calls = []

    def value(x):
        calls.append(1)
        return float(((x - [1.0, -2.0, 0.5]) ** 2 @ [1.0, 10.0, 0.1]).sum())

    best, least = evolve(value, np.zeros(3), step=0.5, budget=500, rng=np.random.default_rng(0))
    assert len(calls) == 500 and least < 1e-3 and best == pytest.approx([1.0, -2.0, 0.5], abs=0.1)
    assert first_below([(1, 3.0), (4, 1.0)], 2.0) == 4 and first_below([(1, 3.0)], 2.0) is None


def test_bad_input() -> None:
    """A sentence each."""
    for changes, sentence in (
        ({"budget": 1}, "budget >= 2"),
        ({"quantile": 1.5}, "quantile from 0 to 1"),
        ({"starts": ("tailored",)}, "at least one attack"),
    ):
        with pytest.raises(ValueError, match=sentence):
            BestResponse(mt.Krum(2), **changes)
    with pytest.raises(TypeError, match="target= as a rule"):
        BestResponse(None)
