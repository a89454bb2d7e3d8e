"""Attackers that play over rounds: ROP and ConsistentDirection."""

import numpy as np
import pytest
from attacks.instances import rows

from mixtailor.attacks import ROP, ConsistentDirection


def rop_by_hand(honest, last, *, z, angle, location, history):
    mean = honest.mean(axis=0)
    aim = history * last + (1 - history) * mean
    ones = np.ones_like(mean)
    across = ones - (ones @ aim) / (aim @ aim) * aim
    theta = np.radians(angle)
    step = np.sin(theta) * across / np.linalg.norm(across) + np.cos(theta) * aim / np.linalg.norm(aim)
    return location * last + (1 - location) * mean + z * step


@pytest.mark.parametrize("angle", [0.0, 45.0, 90.0, 180.0])
@pytest.mark.parametrize(("location", "history"), [(1.0, 0.9), (0.0, 0.0), (0.3, 0.5)])
def test_rop_against_its_formula(angle, location, history) -> None:
    """In d-space, with a last answer that is no combination of this round's rows."""
    honest, last = rows(), rows(1, seed=8)[0]
    attack = ROP(z=2.5, angle=angle, location=location, history=history)
    state = attack.begin()
    state.observe(last)
    made = attack(honest, 2, state=state)
    wanted = rop_by_hand(honest, last, z=2.5, angle=angle, location=location, history=history)
    np.testing.assert_allclose(made, [wanted] * 2, rtol=1e-9, atol=1e-9)


def test_rop_without_a_past() -> None:
    """The honest mean stands in for the answer."""
    honest = rows()
    wanted = rop_by_hand(honest, honest.mean(axis=0), z=1.0, angle=90.0, location=1.0, history=0.9)
    np.testing.assert_allclose(ROP()(honest, 1)[0], wanted, rtol=1e-9, atol=1e-9)


def test_rop_remembers_layers() -> None:
    """The last answer comes in the form that updates have."""
    honest, last = rows(), rows(1, seed=8)[0]
    attack = ROP()
    state = attack.begin()
    state.observe({"a": last[:20], "b": last[20:]})
    trees = [{"a": row[:20], "b": row[20:]} for row in honest]
    made = attack(trees, 1, state=state)[0]
    wanted = rop_by_hand(honest, last, z=1.0, angle=90.0, location=1.0, history=0.9)
    np.testing.assert_allclose(np.concatenate([made["a"], made["b"]]), wanted, rtol=1e-9, atol=1e-9)


def test_consistent_rows_follow_the_formula() -> None:
    """Signs of the first round for ever; magnitudes of what the last answer had besides the last row."""
    attack = ConsistentDirection(factor=3.0)
    state = attack.begin()
    first = attack(rows(), 1, state=state, rng=0)[0]
    mean = rows().mean(axis=0)
    np.testing.assert_allclose(np.abs(first), 3.0 * np.abs(mean), rtol=1e-9)
    answer = rows(1, seed=6)[0]
    state.observe(answer)
    second = attack(rows(seed=2), 1, state=state, rng=77)[0]
    rest = answer - np.linalg.norm(answer) / np.linalg.norm(first) * first
    wanted = 3.0 * np.linalg.norm(answer) * np.abs(rest) / np.linalg.norm(rest) * np.sign(first)
    np.testing.assert_allclose(second, wanted, rtol=1e-9)


@pytest.mark.parametrize("follows", [True, False])
def test_consistent_shrinks_where_nothing_comes_through(follows) -> None:
    """After a period in which the answers' signs do not agree with those pushed, the factor falls, to its floor."""
    attack = ConsistentDirection(factor=4.0, shrink=0.5, least=1.5, period=3)
    state = attack.begin()
    random = np.random.default_rng(0)
    for _ in range(10):
        made = attack.craft(random.normal(size=(6, 300)), 1, state=state, rng=1)
        state.observe(np.sign(made.rows[0]) if follows else random.normal(size=300))
    assert made.facts["factor"] == (4.0 if follows else 1.5)


def test_states_are_apart() -> None:
    """Two attackers of one attack have their own signs."""
    attack = ConsistentDirection()
    one, other = attack(rows(), 1, state=attack.begin(), rng=0), attack(rows(), 1, state=attack.begin(), rng=1)
    assert 0.2 < (np.sign(one) == np.sign(other)).mean() < 0.8
