"""The plain baselines do what their papers say, on cases worked out by hand and on a patient attacker."""

import numpy as np
from memory.naive_baselines import ByzantineSGDState, SafeguardState, byzantine_sgd, safeguard

N, D, BYZANTINE = 12, 200, slice(0, 4)


def rounds(count: int, push: float, seed: int = 0):
    """Gradients of 0.1 with unit noise; the first four workers send the honest mean less a constant push."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        rows = 0.1 + random.normal(size=(N, D))
        if push:
            rows[BYZANTINE] = rows[4:].mean(axis=0) - push
        yield rows


def guarded(push: float, count: int = 60, **options: float) -> SafeguardState:
    state = SafeguardState.begin(N, D)
    for rows in rounds(count, push):
        state, _ = safeguard(state, rows, **options)  # type: ignore[arg-type]  # numbers of a sweep
    return state


def test_safeguard_by_hand() -> None:
    """Sums of 0, 0.2, 0.22, 0.4 and 1.8: the centre is 0.22, whose second neighbour is 0.18 away; only 1.8 is farther
    than 1.5 times that.
    """
    state, aggregate = safeguard(SafeguardState.begin(5, 1), np.array([[0.0], [1.0], [1.1], [2.0], [9.0]]))
    assert np.isclose(aggregate[0], 13.1 / 5.0), "who is found in a round is out from the next on"
    assert state.good.tolist() == [True, True, True, True, False]
    _, aggregate = safeguard(state, np.array([[1.0], [1.0], [1.0], [1.0], [9.0]]))
    assert aggregate.tolist() == [1.0]


def test_safeguard_keeps_honest_workers_and_finds_a_patient_push() -> None:
    """One round of the push is within the noise; in each coordinate sixty add up to 60, and the noise to about 8."""
    assert guarded(0.0).good.all()
    state = guarded(1.0, long=60)
    assert not state.good[BYZANTINE].any() and state.good[4:].all()


def test_safeguard_forgives_only_where_it_is_asked_to() -> None:
    """The push stops after a long window; with a reset its senders are trusted again."""
    for reset in (False, True):
        state = SafeguardState.begin(N, D)
        for rows in [*rounds(60, 1.0), *rounds(60, 0.0, seed=1)]:
            state, _ = safeguard(state, rows, long=60, reset=reset)
        assert state.good[BYZANTINE].all() == reset and state.good[4:].all()


def test_byzantine_sgd_by_hand() -> None:
    """V = 1 and updates of 0, 0, 0 and 9: 9 is farther than 4 V from what most send; it counts as zero in the mean."""
    state = ByzantineSGDState.begin(4, np.zeros(1))
    state, aggregate = byzantine_sgd(state, [[1.0], [1.0], [1.0], [9.0]], np.zeros(1), noise=1.0, diameter=1.0)
    assert state.good.tolist() == [True, True, True, False] and aggregate.tolist() == [0.75]


def test_byzantine_sgd_follows_the_products_with_the_way_travelled() -> None:
    """Updates that differ by 3 V in one coordinate pass the test of a round; along the way travelled they add up."""
    state = ByzantineSGDState.begin(5, np.zeros(2))
    for step in range(40):
        rows = np.array([[0.0, 0.0]] * 4 + [[3.0 * (-1) ** step, 0.0]])
        model = np.array([10.0 * (-1) ** step, 0.0])
        state, _ = byzantine_sgd(state, rows, model, noise=1.0, diameter=1.0)
    assert state.good.tolist() == [True] * 4 + [False]
    assert abs(state.sums[4]).max() < 4.0, "the sum of its updates alone shows nothing"


def test_byzantine_sgd_keeps_honest_workers() -> None:
    state = ByzantineSGDState.begin(N, np.zeros(D))
    for rows in rounds(60, 0.0):
        state, aggregate = byzantine_sgd(state, rows, np.full(D, 0.01), noise=1.5 * np.sqrt(D), diameter=1.0)
    assert state.good.all() and aggregate.shape == (D,)
