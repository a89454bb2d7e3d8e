"""`Guarded`: the last rounds have a say, and what they say is kept like any memory."""

import copy
import pickle

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.attacks import Blow

NAMES = [f"w{place}" for place in range(8)]


def rounds(guarded: mt.Rule, count: int, seed: int = 0) -> None:
    random = np.random.default_rng(seed)
    for _ in range(count):
        guarded(1.0 + 0.1 * random.normal(size=(8, 30)), workers=NAMES)


@pytest.mark.parametrize("inner", [mt.Mean(), mt.Comed(), mt.recommended(2)], ids=["mean", "comed", "recommended"])
def test_a_round_that_is_all_byzantine_moves_no_further_than_the_growth(inner: mt.Rule) -> None:
    """No rule of one round can hold here: every update is Byzantine."""
    guarded = mt.Guarded(inner, f=2)
    rounds(guarded, 12)
    usual = np.median(guarded.state()["scales"])
    blow = guarded(np.full((8, 30), -1e6), workers=NAMES)
    assert np.linalg.norm(blow) <= 2.0 * usual * (1 + 1e-9)
    assert np.linalg.norm(blow) == pytest.approx(2.0 * usual), "and it is cut to exactly that"


def test_fewer_than_half_of_the_rounds_cannot_move_the_median() -> None:
    """Attackers that hold nine of twenty rounds altogether leave the bound within what honest rounds had."""
    guarded, random = mt.Guarded(mt.Mean(), f=2, window=20), np.random.default_rng(3)
    honest: list[float] = []
    for number in range(60):
        if number % 20 < 9 and number >= 20:
            result = guarded(np.full((8, 30), -(10.0 ** (number % 7))))
            assert np.linalg.norm(result) <= 2.0 * max(honest) * (1 + 1e-9)
        else:
            rows = 1.0 + 0.1 * random.normal(size=(8, 30))
            honest.append(float(np.sort(np.linalg.norm(rows, axis=1))[5]))
            guarded(rows)


def test_honest_growth_is_followed_after_half_a_window() -> None:
    """Updates become ten times as long for good: the bound holds them back for half a window, and then no more."""
    guarded = mt.Guarded(mt.Mean(), f=1, window=10)
    for _ in range(10):
        guarded(np.ones((4, 3)))
    lengths = [float(np.linalg.norm(guarded(np.full((4, 3), 10.0)))) for _ in range(8)]
    full = float(np.linalg.norm(np.full(3, 10.0)))
    assert lengths[0] == pytest.approx(0.2 * full) and lengths[-1] == pytest.approx(full)
    assert sum(length < full * 0.999 for length in lengths) == 5


def test_the_state_is_kept_over_a_restart(tmp_path) -> None:
    """Saved and loaded, pickled, copied, or given as a state: the next round is the same to the last bit."""
    for inner in (mt.Comed(), mt.Memory(mt.ViewFilter(2), key=5)):
        guarded = mt.Guarded(inner, window=7)
        rounds(guarded, 9)
        guarded.save(tmp_path / "state")
        loaded, restored = guarded.fresh(), guarded.fresh()
        loaded.load(tmp_path / "state")
        restored.restore(guarded.state())
        copies = [loaded, restored, pickle.loads(pickle.dumps(guarded)), copy.deepcopy(guarded)]  # noqa: S301  # ours
        rows = np.full((8, 30), 50.0)
        expected = guarded(rows, workers=NAMES)
        for other in copies:
            assert np.array_equal(other(rows, workers=NAMES), expected)
            assert other.state()["scales"] == guarded.state()["scales"]
        guarded.reset(1)
        assert guarded.state()["scales"] == []


def test_a_damaged_state_is_refused() -> None:
    guarded = mt.Guarded(mt.Comed())
    for state in ({}, {"scales": "abc"}, {"scales": [-1.0]}, {"scales": [float("nan")]}, {"scales": [1.0] * 21}):
        with pytest.raises(ValueError, match="guard"):
            guarded.restore(state)


def test_nothing_is_learnt_by_trying_or_by_a_skipped_round() -> None:
    guarded = mt.Guarded(mt.MixTailor([mt.Krum(2), mt.Comed()]))
    rounds(guarded, 6)
    before = guarded.state()
    attack = Blow(guarded, watch=0)
    attack(np.ones((6, 30)), f=2, state=attack.begin(), rng=0)
    members, shares = guarded.members(8)
    assert [member.rule for member in members] == [mt.Krum(2), mt.Comed()] and shares == (0.5, 0.5)
    assert guarded.aggregate(np.full((8, 30), np.nan), on_fault="skip").update is None
    assert guarded.state() == before


def test_what_was_drawn_is_shown_and_no_limit() -> None:
    guarded = mt.Guarded(mt.Krum(2))
    rounds(guarded, 6)
    assert guarded.aggregate(np.ones((8, 3))).rule == mt.Krum(2)
    with pytest.raises(ValueError, match="must be outermost"):
        mt.MixTailor([guarded])
    assert repr(mt.Guarded(mt.Krum(2), growth=3.0)) == "Guarded(Krum(f=2), growth=3.0)"


def test_too_few_updates_are_refused_by_the_right_formula() -> None:
    guarded = mt.Guarded(mt.Comed(), f=4)
    with pytest.raises(ValueError, match=r"needs at least 9 rows \(n >= 2f \+ 1\) and got 8"):
        guarded.check_rows(8)
    with pytest.raises(ValueError, match=r"needs at least 11 rows \(n >= 2f \+ 3\) and got 8"):
        mt.Guarded(mt.Krum(f=4)).check_rows(8)
