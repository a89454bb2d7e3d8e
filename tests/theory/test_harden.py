"""The double oracle, and its judgement on states that it has not played."""

import json

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.attacks import BestResponse, Tailored
from mixtailor.theory import State, harden, judge


def states(count, seed=0, strength=0.4):
    random = np.random.default_rng(seed)
    return [State(strength + random.normal(size=(2, 12, 30)), np.full(30, strength)) for _ in range(count)]


@pytest.fixture(scope="module")
def hardened():
    pool = [mt.Krum(2), mt.Comed(), mt.GeometricMedian()]
    return harden(pool, states(2), f=2, held_out=states(3, seed=1), budget=40, rounds=4)


def test_the_value_falls_as_attacks_join(hardened) -> None:
    """More columns never help the server, and an answer is not above the value it answers."""
    values = [step.value for step in hardened.steps]
    assert values == sorted(values, reverse=True)
    assert all(step.response <= step.value + 1e-9 for step in hardened.steps)
    assert [step.moves for step in hardened.steps] == list(range(3, 3 + len(values)))
    assert hardened.converged == (hardened.steps[-1].response >= hardened.steps[-1].value - 0.005)


def test_krum_is_hardly_drawn(hardened) -> None:
    """It is broken at every state here."""
    assert sum(hardened.probabilities) == pytest.approx(1.0)
    assert hardened.probabilities[0] < 0.2 and isinstance(hardened.rule, mt.MixTailor)
    assert hardened.rule.probabilities == hardened.probabilities


def test_the_judgement_is_on_other_states_by_a_fresh_search(hardened) -> None:
    """Twice the budget, knowing the server: the same as `judge` says, for each contender."""
    assert set(hardened.held_out) == {"hardened", "uniform", "Krum(f=2)", "Comed()", "GeometricMedian()"}
    again = judge({"Krum(f=2)": mt.Krum(2), "hardened": hardened.rule}, states(3, seed=1), f=2, budget=80, seed=1)
    for name, interval in again.items():
        assert hardened.held_out[name].value == pytest.approx(interval.value, abs=1e-9)
    assert hardened.held_out["hardened"].value > hardened.held_out["Krum(f=2)"].value
    assert "held-out states" in hardened.verdict and hardened.verdict in str(hardened)
    assert json.loads(hardened.to_json())["verdict"] == hardened.verdict
    assert hardened.certificate.states == 3


def test_judged_values_are_the_payoff_against_grad_f() -> None:
    """Not against the rows' own mean: recomputed from the rows that the search sends."""
    (state,) = states(1)
    found = judge({"comed": mt.Comed()}, [state], f=2, budget=30, seed=4)["comed"].value
    here = state.round(0, 2, np.random.default_rng((4, 0, 0)))
    from mixtailor.attacks import Trials

    scene = here.fresh(np.random.default_rng((4, 0)))
    points = BestResponse(mt.Comed(), budget=30).search(Trials(mt.Comed(), scene, here.gradient))
    sent = np.stack([here.whole.at(point) for point in points])
    answer = mt.Comed()(np.vstack([state.gradients[0, :10], sent]))
    g = state.gradient
    size = np.linalg.norm(g) * max(np.linalg.norm(answer), np.linalg.norm(g))
    assert found == pytest.approx(float(answer @ g) / size, abs=1e-6)


def test_bad_input() -> None:
    """A sentence each."""
    with pytest.raises(ValueError, match="at least one attack to begin with"):
        harden([mt.Comed()], states(1), f=2, held_out=states(1), attacks=())
    with pytest.raises(ValueError, match="at least one state"):
        harden([mt.Comed()], states(1), f=2, held_out=[], attacks=[Tailored()])
