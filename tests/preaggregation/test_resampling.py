"""Resampling."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked, seen

from mixtailor.mixing.entropy import SeededEntropy
from mixtailor.preaggregation import Resampling
from mixtailor.rules import Comed, Krum, Mean


def test_by_hand() -> None:
    """Two rows twice: tickets 0, 1, 0, 1 in the order of the draw."""
    rows = np.array([[10.0], [20.0]])
    order = np.random.default_rng(3).permutation(4) % 2
    mixed = Resampling(repeats=2).prepare(seen(rows, 3)).matrix()
    np.testing.assert_allclose(mixed[:, 0], [10 + 10 * order[:2].mean(), 10 + 10 * order[2:].mean()])


@pytest.mark.parametrize("seed", range(6))
def test_each_row_is_used_s_times(seed: int) -> None:
    """And each mean is of s draws, so that at most s f means hold a faulty row."""
    weights = Resampling(repeats=3).prepare(seen(np.eye(10), seed)).weights
    np.testing.assert_allclose(weights.sum(axis=0), 1.0)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose(weights * 3, np.round(weights * 3), atol=1e-12)
    assert ((weights[:, :2] > 0).any(axis=1)).sum() <= 6


def test_what_comes_behind() -> None:
    """n rows with s f faulty ones; Krum must tolerate them, unless it keeps the f it was declared with."""
    assert Resampling(repeats=3).after(12, 2) == (12, 6)
    assert (Resampling(repeats=2) >> Krum(f=2)).min_rows() == 11
    result = (Resampling(repeats=2) >> Krum(f=2)).aggregate(np.random.default_rng(0).normal(size=(11, 4)))
    assert result.update.shape == (4,)
    with pytest.raises(
        ValueError, match=r"at least 11 rows \(n >= 2f \+ 3 behind Resampling\(repeats=2\)\) and got 10"
    ):
        (Resampling(repeats=2) >> Krum(f=2))(np.zeros((10, 4)))


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_the_oracle(seed: int) -> None:
    """On the same shuffle of the tickets."""
    random = np.random.default_rng(seed + 100)
    rows, repeats = random.normal(size=(int(random.integers(1, 20)), 17)), int(random.integers(1, 5))
    tickets = np.random.default_rng(seed).permutation(repeats * len(rows)).tolist()
    expected = naive.resampling(rows, tickets, repeats)
    np.testing.assert_allclose(Resampling(repeats=repeats).prepare(seen(rows, seed)).matrix(), expected, rtol=1e-12)


@pytest.mark.parametrize("far", FAR)
def test_far_rows_cost_no_digits(far: float) -> None:
    """Means without the outlier keep their digits, and Krum behind finds one: in n-space as in d-space."""
    rows = attacked(far, n=12).astype(np.float64)
    for seed in range(5):
        tickets = np.random.default_rng(seed).permutation(24).tolist()
        updates = seen(rows, seed)
        answer = updates.at(Krum(f=2).decide(Resampling(repeats=2).prepare(updates)))
        assert np.linalg.norm(answer - naive.krum(naive.resampling(rows, tickets, 2), 2)) < 1e-6


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """It leaves before it is drawn."""
    rows = attacked(2.0, dtype=np.float64)
    rows[4, 7] = np.nan
    for rule in (Resampling(repeats=2) >> Comed(), Resampling(repeats=2) >> Krum(f=1)):
        result = rule.aggregate(rows)
        assert np.isfinite(result.update).all()
        assert [fault.row for fault in result.quarantined] == [4]


def test_randomness_comes_from_the_key_of_the_call() -> None:
    """One key, one result; another key, another one; numpy's own seed has no part in it."""
    rows = np.random.default_rng(2).normal(size=(12, 5))
    rule = Resampling(repeats=2) >> Comed()
    np.random.seed(1)  # noqa: NPY002  # the seed that must not matter
    first = rule(rows, entropy=SeededEntropy(7))
    np.random.seed(2)  # noqa: NPY002  # the seed that must not matter
    np.testing.assert_array_equal(first, rule(rows, entropy=SeededEntropy(7)))
    assert any((first != rule(rows, entropy=SeededEntropy(other))).any() for other in range(5))


def test_the_mean_stays() -> None:
    """Every row is used equally often."""
    rows = np.random.default_rng(0).normal(size=(12, 5))
    np.testing.assert_allclose((Resampling(repeats=3) >> Mean())(rows), rows.mean(axis=0), rtol=1e-12)


def test_refuses_wrong_repeats() -> None:
    """At construction."""
    with pytest.raises(ValueError, match="Resampling needs repeats >= 1"):
        Resampling(repeats=0)
    with pytest.raises(TypeError, match="whole number"):
        Resampling(repeats=1.5)  # type: ignore[arg-type]  # that is the point
