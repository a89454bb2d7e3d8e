"""What the attacker knows."""

import dataclasses

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import (
    ALIE,
    FangKrum,
    KnowsDraw,
    KnowsPool,
    KnowsProbabilities,
    LineSearch,
    Oblivious,
    Sees,
    SeesAll,
    Tailored,
    Trials,
)
from mixtailor.attacks.base import Scene
from mixtailor.intake import receive
from mixtailor.updates import Updates

HONEST, OWN = rows(), rows(2, seed=1)


def simulated(k):
    known = np.vstack([OWN, HONEST[: k - 2]])
    return np.vstack([HONEST[: k - 2], np.tile(known.mean(axis=0), (12 - k, 1))])


@pytest.mark.parametrize("k", [2, 5, 12])
@pytest.mark.parametrize("attack", [Tailored(0.7), ALIE(z=1.0), FangKrum()], ids=repr)
def test_sees_k(attack, k) -> None:
    """k counts own and seen rows; the attack takes the mean of those k for each of the others."""
    made = (Sees(k) | attack)(HONEST, 2, own=OWN)
    np.testing.assert_allclose(made, attack(simulated(k), 2, own=OWN), rtol=1e-6, atol=1e-9)


def test_sees_all_is_no_limit() -> None:
    """With k = n, and without a level."""
    for level in (SeesAll(), Sees(12)):
        np.testing.assert_allclose((level | ALIE(z=1.0))(HONEST, 2, own=OWN), ALIE(z=1.0)(HONEST, 2), rtol=1e-9)


def test_what_is_not_seen_has_no_influence() -> None:
    """Other unseen rows, the same attack."""
    other = HONEST.copy()
    other[3:] = 1e9
    for level in (Sees(5), Oblivious()):
        np.testing.assert_array_equal(
            (level | ALIE(z=1.0))(HONEST, 2, own=OWN), (level | ALIE(z=1.0))(other, 2, own=OWN)
        )


def test_oblivious_with_a_target_simulates_the_others() -> None:
    """n - f rows are needed to try a target: the mean of its own, as with k = f."""
    attack = LineSearch(Tailored(), mt.Krum(2), budget=6)
    np.testing.assert_array_equal(
        (Oblivious() | attack)(HONEST, 2, own=OWN, rng=0), (Sees(2) | attack)(HONEST, 2, own=OWN, rng=0)
    )


def test_own_rows_are_needed() -> None:
    """Without them there is nothing to know."""
    for level in (Sees(4), Oblivious()):
        with pytest.raises(ValueError, match="needs own="):
            (level | Tailored())(HONEST, 2)
    with pytest.raises(ValueError, match="f <= k <= n"):
        (Sees(1) | Tailored())(HONEST, 2, own=OWN)


@dataclasses.dataclass(frozen=True)
class Spy(Tailored):
    """Remembers the target that it was told."""

    target: mt.Rule | None = None
    seen: list = dataclasses.field(default_factory=list, compare=False)

    def line(self, scene):
        self.seen.append(self.target)
        return super().line(scene)


def test_what_is_known_of_the_pool() -> None:
    """The pool without its probabilities, with them, or the very rule that will be drawn."""
    server = mt.MixTailor([mt.Krum(2), mt.Comed(), mt.Mean()], [0.8, 0.2, 0.0], mt.SeededEntropy(3))
    spy = Spy(target=server)
    (KnowsPool() | spy)(HONEST, 2)
    (KnowsProbabilities() | spy)(HONEST, 2)
    assert spy.seen[0].rules == server.rules and spy.seen[0].probabilities is None and spy.seen[1] is server
    for _ in range(20):
        (KnowsDraw() | spy)(HONEST, 2)
        assert spy.seen[-1] == server.aggregate(np.vstack([HONEST, OWN])).rule


def test_a_leaked_seed_is_worth_something() -> None:
    """Over rounds, the answer is further against the mean when the draw is known."""
    reference = HONEST.mean(axis=0)
    pool = [mt.Krum(2), mt.Comed()]
    values = {}
    for known in (False, True):
        server = mt.MixTailor(pool, entropy=mt.SeededEntropy(5))
        attack = LineSearch(Tailored(), server, budget=12)
        attack = KnowsDraw() | attack if known else attack
        answers = [server(np.vstack([HONEST, attack(HONEST, 2, rng=0)])) for _ in range(20)]
        values[known] = np.mean([answer @ reference for answer in answers])
    assert values[True] < values[False]


def test_no_seed_no_leak() -> None:
    """The operating system's randomness cannot be known."""
    with pytest.raises(ValueError, match="entropy=SeededEntropy"):
        (KnowsDraw() | Spy(target=mt.MixTailor([mt.Krum(2)])))(HONEST, 2)


def test_levels_compose() -> None:
    """And their repr is what made them."""
    attack = Sees(4) | KnowsPool() | Spy(target=mt.MixTailor([mt.Krum(2)], [1.0]))
    attack(HONEST, 2, own=OWN)
    assert attack.attack.seen[0].probabilities is None
    assert repr(Sees(4) | KnowsDraw() | Tailored(0.5)) == "Sees(k=4) | KnowsDraw() | Tailored(epsilon=0.5)"


def test_drawn_rules_follow_the_shares() -> None:
    """A rule of probability zero is never tried."""
    target = mt.MixTailor([mt.Krum(2), mt.Mean()], [1.0, 0.0])
    trials = Trials(target, Scene(Updates.arrived(receive(HONEST)), 2, 12, None, None, np.random.default_rng(0)))
    assert trials.rules == (mt.Krum(2),) and trials.drawn() == mt.Krum(2)
