"""Schedule, Split, Roles, Apart: at chosen times, on shares of the coordinates, by some workers, or with noise."""

import itertools

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import ALIE, ROP, Apart, Drift, Gaussian, LabelFlip, Roles, Schedule, SignFlip, Split, Tailored


def test_a_sleeper_sends_exactly_the_mean_until_it_wakes() -> None:
    """Then it is the inner attack, for good."""
    honest = rows()
    attack = Schedule(Tailored(10.0), start=3)
    state = attack.begin()
    sent = [attack(honest, 2, state=state) for _ in range(5)]
    for made in sent[:3]:
        np.testing.assert_array_equal(made, [mt.Mean()(honest)] * 2)
    for made in sent[3:]:
        np.testing.assert_array_equal(made, Tailored(10.0)(honest, 2))


def test_a_strike_lasts_one_round() -> None:
    """With the mean as the rule, two of twelve strikes of -c means move one result to (10 - 2c)/12 of the mean."""
    honest = rows()
    attack = Schedule(Tailored(1e4), start=2, length=1)
    state = attack.begin()
    results = [mt.Mean()(np.vstack([honest, attack(honest, 2, state=state)])) for _ in range(4)]
    shares = [float(result @ honest.mean(axis=0) / (honest.mean(axis=0) @ honest.mean(axis=0))) for result in results]
    np.testing.assert_allclose(shares, [1.0, 1.0, (10 - 2e4) / 12, 1.0], rtol=1e-9)


def test_a_flipping_attack_leaves_nothing_in_a_running_mean() -> None:
    """Over two spells the deviations from the honest mean cancel, while each is as large as ALIE's."""
    honest = rows()
    attack = Schedule(ALIE(z=1.5), start=1, flip=2)
    state = attack.begin()
    sent = np.stack([attack(honest, 1, state=state)[0] - honest.mean(axis=0) for _ in range(5)])
    push = -1.5 * honest.std(axis=0)
    np.testing.assert_allclose(sent, np.outer([0.0, 1.0, 1.0, -1.0, -1.0], push), atol=1e-12)


def test_a_sleeping_attack_watches() -> None:
    """Drift learns its running mean while it sleeps, and ROP sees the server's answers."""
    attack, plain = Schedule(Drift(decay=0.9), start=4), Drift(decay=0.9)
    state, beside = attack.begin(), plain.begin()
    for seed in range(5):
        honest = rows(seed=seed) - 0.5
        made, wanted = attack(honest, 1, state=state), plain(honest, 1, state=beside)
    np.testing.assert_array_equal(made, wanted)
    state = Schedule(ROP()).begin()
    state.observe(np.ones(3))
    np.testing.assert_array_equal(state.notes["attack"].previous, np.ones(3))


def test_splitters_are_orthogonal_and_add_up_to_the_whole() -> None:
    """Each coordinate is shifted by one worker; all shares are about equal; two deviations have no product."""
    honest = rows(d=4000)
    mean, whole = mt.Mean()(honest), ALIE(z=1.5)(honest, 1)[0]
    sent = Split(ALIE(z=1.5))(honest, 4, rng=0)
    shifted = sent != mean
    assert (shifted.sum(axis=0) == 1).all() and (abs(shifted.mean(axis=1) - 0.25) < 0.03).all()
    np.testing.assert_array_equal((sent - mean).sum(axis=0), whole - mean)
    inner = (sent - mean) @ (sent - mean).T
    assert not inner[~np.eye(4, dtype=bool)].any()


@pytest.mark.parametrize(("every", "changes"), [(None, [0, 0, 0, 0, 0]), (1, [1] * 5), (3, [0, 0, 1, 0, 0])])
def test_shares_are_kept_or_drawn_again(every: int | None, changes: list[int]) -> None:
    honest = rows()
    attack = Split(ALIE(z=1.0), every=every)
    state = attack.begin()
    mean = mt.Mean()(honest)
    shares = [attack(honest, 2, state=state, rng=i)[0] != mean for i in range(6)]
    assert [int((a != b).any()) for a, b in itertools.pairwise(shares)] == changes


def test_one_worker_blinds_for_the_others() -> None:
    """Scaled by the largest update, what the others do is below the last digit of a float32 and of a float64's
    square; the others send what they would send without it.
    """
    honest = rows()
    sent = Roles(ALIE(z=0.5))(honest, 3, rng=0)
    np.testing.assert_array_equal(sent[1:], ALIE(z=0.5)(honest, 2))
    assert 9e9 < sent[0].std() < 1.1e10
    everyone = np.vstack([honest, sent])
    scaled = (everyone - everyone.mean(axis=0)) / np.linalg.norm(everyone - everyone.mean(axis=0), axis=1).max()
    pairs = np.linalg.norm(scaled[1:10, None] - scaled[None, 1:10], axis=2)
    assert (pairs**2).max() < np.finfo(np.float64).eps


def test_roles_divide_the_own_rows_too() -> None:
    honest, own = rows(), rows(4, seed=1)
    attack = Roles(SignFlip(), SignFlip(scale=5.0), count=3)
    np.testing.assert_array_equal(attack(honest, 4, own=own), np.array([[-5.0], [-5.0], [-5.0], [-1.0]]) * own)
    with pytest.raises(ValueError, match="needs f >= 4"):
        attack(honest, 3, own=own[:3])


def test_wrappers_nest_and_count_the_same_rounds() -> None:
    """A sleeper of splitters, one of which blinds."""
    honest = rows()
    attack = Schedule(Roles(Split(ALIE(z=2.0), every=2), Gaussian(deviation=1e6)), start=2)
    state = attack.begin()
    sent = [attack(honest, 4, state=state, rng=i) for i in range(4)]
    np.testing.assert_array_equal(sent[1], [mt.Mean()(honest)] * 4)
    assert abs(sent[2][0]).max() > 1e5 and ((sent[2][1:] != mt.Mean()(honest)).sum(axis=0) == 1).all()
    assert state.round == state.notes["attack"].round == state.notes["attack"].notes["attack"].round == 4


@pytest.mark.parametrize("kind", [Apart, Schedule, Split, Roles])
def test_what_cannot_be_wrapped(kind: type[mt.attacks.Attack]) -> None:
    with pytest.raises(TypeError, match="as an attack"):
        kind("alie")  # type: ignore[call-arg]  # each of the three takes one
    with pytest.raises(ValueError, match="acts on the data"):
        kind(LabelFlip())  # type: ignore[call-arg]  # each of the three takes one


def test_apart_are_no_copies_and_push_as_the_inner_attack() -> None:
    """Two of f updates are sqrt(2 s) honest deviations apart, and their mean over many draws is the inner attack's."""
    honest = np.random.default_rng(0).normal(size=(9, 4000))
    spread = float(((honest - honest.mean(axis=0)) ** 2).sum(axis=1).mean())
    attack, plain = Apart(ALIE(z=0.5), share=0.4), ALIE(z=0.5)(honest, 1)[0]
    sent = np.stack([attack(honest, 2, rng=seed) for seed in range(200)])
    between = ((sent[:, 0] - sent[:, 1]) ** 2).sum(axis=1).mean()
    assert between == pytest.approx(2 * 0.4 * spread, rel=0.15)
    np.testing.assert_allclose(sent.mean(axis=(0, 1)), plain, atol=0.15)


def test_apart_keeps_what_the_inner_attack_remembers() -> None:
    """Drift's running mean goes on over the rounds."""
    attack = Apart(Drift(z=1.0), share=1e-12)
    state, plain = attack.begin(), Drift(z=1.0).begin()
    random = np.random.default_rng(3)
    for _ in range(4):
        honest = random.normal(size=(7, 30))
        expected = Drift(z=1.0)(honest, 2, state=plain)
        np.testing.assert_allclose(attack(honest, 2, state=state, rng=0), expected, atol=1e-4)
