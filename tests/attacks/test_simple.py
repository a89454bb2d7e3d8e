"""SignFlip, Gaussian, Zero, NonFinite, LabelFlip, Mimic."""

import numpy as np
import pytest
import torch
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import Gaussian, LabelFlip, Mimic, NonFinite, SignFlip, Zero


def test_sign_flip() -> None:
    """Each worker flips its own row; without one, the honest mean."""
    honest, own = rows(), rows(2, seed=1)
    np.testing.assert_array_equal(SignFlip()(honest, 2, own=own), -own)
    np.testing.assert_array_equal(SignFlip(scale=4.0).corrupt(own[0]), -4.0 * own[0])
    np.testing.assert_allclose(SignFlip()(honest, 1)[0], -honest.mean(axis=0))


def test_gaussian_is_gaussian() -> None:
    """Moments of 200,000 numbers, rows that differ, and noise that does not depend on how coordinates are divided."""
    d = 200_000
    made = Gaussian(deviation=3.0)(np.zeros((4, d), np.float32), 2, rng=0)
    assert abs(made.mean()) < 0.03 and abs(made.std() - 3.0) < 0.02
    assert abs(np.corrcoef(made)[0, 1]) < 0.02
    assert abs(np.corrcoef(made[0, :-1], made[0, 1:])[0, 1]) < 0.02
    halves = [np.zeros((4, d // 2), np.float32)] * 2
    trees = [[a, b] for a, b in zip(*halves, strict=True)]
    split = Gaussian(deviation=3.0)(trees, 2, rng=0)
    np.testing.assert_array_equal(np.concatenate(split[0]), made[0])


def test_gaussian_about_the_own_row() -> None:
    """The noise is the same, the centre is not."""
    honest, own = rows(), rows(2, seed=1)
    noise = Gaussian(deviation=2.0)(honest, 2, rng=4)
    np.testing.assert_allclose(Gaussian(deviation=2.0, added=True)(honest, 2, own=own, rng=4), own + noise)


def test_zero() -> None:
    """Nothing but zeros."""
    assert not Zero()(rows(), 3).any()


@pytest.mark.parametrize(
    ("value", "entry"), [("nan", np.nan), ("inf", np.inf), ("-inf", -np.inf), ("huge", np.finfo(np.float32).max)]
)
def test_non_finite(value, entry) -> None:
    """Everywhere, or in one coordinate of the correct row."""
    honest, own = rows(dtype=np.float32), rows(2, seed=1, dtype=np.float32)
    np.testing.assert_array_equal(NonFinite(value)(honest, 2), np.full((2, 60), entry, np.float32))
    hidden = NonFinite(value, everywhere=False)(honest, 2, own=own)
    np.testing.assert_array_equal(hidden[:, 1:], own[:, 1:])
    np.testing.assert_array_equal(hidden[:, 0], np.full(2, entry, np.float32))
    answer = mt.Krum(2)(np.vstack([honest, hidden]))
    assert np.isfinite(answer).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_huge_is_finite_in_every_type(dtype) -> None:
    """The largest number that the type holds."""
    made = NonFinite("huge")(torch.tensor(rows(), dtype=dtype), 1)
    assert (made == torch.finfo(dtype).max).all()


def test_label_flip() -> None:
    """Acts on labels of any array type, and sends its own rows as they are."""
    honest, own = rows(), rows(2, seed=1)
    np.testing.assert_array_equal(LabelFlip()(honest, 2, own=own), own)
    assert LabelFlip(classes=3).labels(torch.tensor([0, 1, 2])).tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="needs own="):
        LabelFlip()(honest, 2)


def test_mimic_copies_the_one_that_stands_out() -> None:
    """The row furthest along the first principal direction, bit for bit."""
    honest = rows(dtype=np.float32)
    centred = honest - honest.mean(axis=0)
    direction = np.linalg.svd(centred.astype(float))[2][0]
    wanted = np.abs(centred @ direction).argmax()
    np.testing.assert_array_equal(Mimic()(honest, 2), honest[[wanted, wanted]])
    np.testing.assert_array_equal(Mimic(worker=4)(honest, 2), honest[[4, 4]])
    with pytest.raises(ValueError, match="got 10 honest rows"):
        Mimic(worker=10)(honest, 2)


def test_mimic_learns_over_rounds() -> None:
    """One worker's data differ in a fixed direction: it is found under noise, and then kept."""
    random = np.random.default_rng(0)
    attack, state = Mimic(rounds=30), Mimic().begin()
    shift = np.zeros(40)
    shift[3] = 6.0
    for _ in range(40):
        honest = random.normal(size=(8, 40))
        honest[5] += shift
        made = attack.craft(honest, 2, state=state)
    assert made.facts["worker"] == 5 and state.round == 30
    np.testing.assert_array_equal(made.rows[0], honest[5])
