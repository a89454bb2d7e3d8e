"""What every exported attack promises, in every home that updates can have."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from attacks.instances import every_attack, rows

from mixtailor import attacks
from mixtailor.intake import receive
from mixtailor.intake.device import on_device
from mixtailor.updates import Updates

ATTACKS = every_attack()
F = 2


def sent(attack, honest, own, **more):
    return attack(honest, F, own=own, rng=1, state=attack.begin(), **more)


def as_trees(matrix):
    return [{"w": torch.tensor(row[:24].reshape(4, 6)), "rest": [row[24:].astype(np.float64)]} for row in matrix]


def flat(trees):
    return np.stack([np.concatenate([tree["w"].numpy().ravel(), tree["rest"][0]]) for tree in trees])


@pytest.fixture
def honest():
    return rows(dtype=np.float32)


@pytest.fixture
def own():
    return rows(F, seed=1, dtype=np.float32)


@pytest.mark.parametrize("attack", ATTACKS, ids=repr)
class TestEveryAttack:
    def test_storages_agree(self, attack, honest, own) -> None:
        """A matrix, a tensor, a list of rows and layers give the same rows, in the form that came in."""
        matrix = sent(attack, honest, own)
        assert isinstance(matrix, np.ndarray) and matrix.shape == (F, 60) and matrix.dtype == np.float32
        tensor = sent(attack, torch.tensor(honest), torch.tensor(own))
        assert isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float32 and tensor.shape == (F, 60)
        listed = sent(attack, list(honest), list(own))
        assert isinstance(listed, list) and listed[0].dtype == np.float32
        trees = sent(attack, as_trees(honest), as_trees(own))
        assert trees[0]["w"].shape == (4, 6) and trees[0]["rest"][0].dtype == np.float64
        for other in (tensor.numpy(), np.stack(listed), flat(trees)):
            np.testing.assert_allclose(other, matrix, rtol=2e-4, atol=2e-5)

    def test_a_device_agrees(self, attack, honest, own) -> None:
        """Tensors read as a device reads them give the same rows."""
        if attack.on_labels:
            pytest.skip("sends what it is given")
        device = attack(on_device(torch.tensor(honest)), F, rng=1, state=attack.begin())
        plain = attack(honest, F, rng=1, state=attack.begin())
        np.testing.assert_allclose(torch.stack(device).numpy(), plain, rtol=2e-4, atol=2e-5)

    def test_nothing_is_written_or_shared(self, attack, honest, own) -> None:
        """The updates stay as they were, and no row aliases them or another row."""
        before = honest.copy(), own.copy()
        made = sent(attack, list(honest), list(own))
        assert (before[0] == honest).all() and (before[1] == own).all()
        made[0][:] = 7.0
        assert (before[0] == honest).all() and (before[1] == own).all() and not (made[1] == 7.0).all()

    def test_points_and_rows_are_the_same(self, attack, honest, own) -> None:
        """What `decide` describes is what a call computes."""
        if attack.on_labels:
            pytest.skip("sends what it is given")
        home = Updates.arrived(receive(honest))
        points = attack.decide(home, F, rng=1, state=attack.begin())
        made = attack(honest, F, rng=1, state=attack.begin())
        np.testing.assert_array_equal(np.stack([home.at(point) for point in points]), made)

    def test_it_pickles_and_repeats(self, attack, honest, own) -> None:
        """A copy is equal, and with the same generator does the same."""
        twin = pickle.loads(pickle.dumps(attack))  # noqa: S301  # our own bytes
        assert twin == attack and repr(twin) == repr(attack)
        np.testing.assert_array_equal(sent(attack, honest, own), sent(twin, honest, own))

    def test_no_byzantine_worker_is_refused(self, attack, honest, own) -> None:
        """f = 0 leaves nothing to send."""
        with pytest.raises(ValueError, match=r"needs f >= \d"):
            attack(honest, 0)

    def test_too_few_honest_rows_are_refused(self, attack, own) -> None:
        """An attack on fewer honest rows than it sends says so; one that a worker runs alone needs none."""
        if attack.alone:
            pytest.skip("needs its own row only")
        with pytest.raises(ValueError, match="more honest rows than Byzantine"):
            attack(own, F)

    def test_own_rows_are_counted(self, attack, honest, own) -> None:
        """One correct row for each Byzantine worker."""
        with pytest.raises(ValueError, match="one correct row for each"):
            attack(honest, F, own=own[:1])

    def test_faulty_honest_rows_are_named(self, attack, honest) -> None:
        """An attack that computes with the rows names the one that it cannot compute with."""
        if attack.alone:
            pytest.skip("computes with nothing")
        honest[3, 5] = np.nan
        with pytest.raises(ValueError, match="row 3 is not finite"):
            attack(honest, F, rng=1, state=attack.begin())


@pytest.mark.parametrize("attack", [a for a in ATTACKS if a.alone], ids=repr)
def test_one_worker_alone(attack, own) -> None:
    """What a worker sends alone is what it sends with others that know no more."""
    update = own[0]
    made = attack.corrupt(update, rng=3)
    assert made.shape == update.shape and made.dtype == update.dtype


def test_one_worker_cannot_run_what_needs_others(own) -> None:
    """The message says what it needs."""
    with pytest.raises(ValueError, match="needs the honest updates"):
        attacks.Tailored().corrupt(own[0])


def test_names() -> None:
    """Attacks are made by name, and a slip of the pen gets a hint."""
    assert attacks.make("alie", z=1.5) == attacks.ALIE(z=1.5)
    assert attacks.make("MinMax", direction="sign") == attacks.MinMax(direction="sign")
    assert {"tailored", "fang_krum", "rop"} <= set(attacks.names())
    with pytest.raises(ValueError, match="Did you mean 'tailored'"):
        attacks.make("tailord")
    with pytest.raises(ValueError, match="Did you mean 'epsilon'"):
        attacks.make("tailored", epsilonn=1.0)


def test_half_precision_and_shapes() -> None:
    """Rows of any shape and type come back as they were."""
    honest = rows(dtype=np.float16).reshape(10, 6, 10)
    made = attacks.ALIE(z=1.0)(honest, 2)
    assert made.shape == (2, 6, 10) and made.dtype == np.float16
    half = attacks.Tailored(2.0)(torch.tensor(rows(), dtype=torch.bfloat16), 2)
    assert half.dtype == torch.bfloat16


def test_no_warning_leaks() -> None:
    """A search that tries an iteration which stops early keeps quiet about it."""
    import mixtailor as mt

    target = mt.GeometricMedian(p=3, limit=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attacks.LineSearch(attacks.Tailored(), target, budget=4)(rows(), 2)
