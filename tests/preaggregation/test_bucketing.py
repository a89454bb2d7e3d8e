"""Bucketing."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked, seen
from scipy.stats import chisquare

from mixtailor.mixing.entropy import SeededEntropy
from mixtailor.preaggregation import Bucketing
from mixtailor.rules import Comed, Krum, Mean


def test_by_hand() -> None:
    """Two buckets of five rows: three and two rows, or whatever the permutation says, and their means."""
    rows = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
    order = np.random.default_rng(3).permutation(5)
    mixed = Bucketing(size=3).prepare(seen(rows, 3)).matrix()
    np.testing.assert_allclose(mixed, [[order[:3].mean()], [order[3:].mean()]])


@pytest.mark.parametrize(("n", "size", "rows"), [(12, 2, 6), (11, 2, 6), (11, 1, 11), (3, 7, 1)])
def test_what_comes_behind(n: int, size: int, rows: int) -> None:
    """ceil(n / s) rows, and as many faulty ones as before; the view has as many as promised."""
    assert Bucketing(size=size).after(n, 2) == (rows, 2)
    assert Bucketing(size=size).prepare(seen(np.eye(n))).n == rows


def test_requirement_of_a_rule_behind() -> None:
    """Krum(f=1) needs 5 rows, so that buckets of two need 9."""
    rule = Bucketing(size=2) >> Krum(f=1)
    assert rule.min_rows() == 9
    rule(np.random.default_rng(0).normal(size=(9, 4)))
    with pytest.raises(ValueError, match=r"at least 9 rows \(n >= 2f \+ 3 behind Bucketing\(size=2\)\) and got 8"):
        rule(np.random.default_rng(0).normal(size=(8, 4)))


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_the_oracle(seed: int) -> None:
    """On the same permutation."""
    random = np.random.default_rng(seed + 100)
    rows, size = random.normal(size=(int(random.integers(1, 20)), 17)), int(random.integers(1, 6))
    order = np.random.default_rng(seed).permutation(len(rows)).tolist()
    expected = naive.bucketing(rows, order, size)
    np.testing.assert_allclose(Bucketing(size=size).prepare(seen(rows, seed)).matrix(), expected, rtol=1e-12)


@pytest.mark.parametrize("far", FAR)
def test_far_rows_cost_no_digits(far: float) -> None:
    """The bucket that holds the outlier is spoilt, and Krum behind finds a clean one: in n-space as in d-space."""
    rows = attacked(far, n=12).astype(np.float64)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(12).tolist()
        updates = seen(rows, seed)
        answer = updates.at(Krum(f=1).decide(Bucketing(size=2).prepare(updates)))
        assert np.linalg.norm(answer - naive.krum(naive.bucketing(rows, order, 2), 1)) < 1e-6


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """It leaves before its bucket is averaged."""
    rows = attacked(2.0, dtype=np.float64)
    rows[4, 7] = np.nan
    for rule in (Bucketing(size=2) >> Comed(), Bucketing(size=2) >> Krum(f=1)):
        result = rule.aggregate(rows)
        assert np.isfinite(result.update).all()
        assert [fault.row for fault in result.quarantined] == [4]


def test_randomness_comes_from_the_key_of_the_call() -> None:
    """One key, one result; another key, another one; numpy's own seed has no part in it."""
    rows = np.random.default_rng(2).normal(size=(12, 5))
    rule = Bucketing(size=3) >> Comed()
    np.random.seed(1)  # noqa: NPY002  # the seed that must not matter
    first = rule(rows, entropy=SeededEntropy(7))
    np.random.seed(2)  # noqa: NPY002  # the seed that must not matter
    np.testing.assert_array_equal(first, rule(rows, entropy=SeededEntropy(7)))
    assert any((first != rule(rows, entropy=SeededEntropy(other))).any() for other in range(5))


def test_every_row_is_as_likely_a_neighbour_as_any_other() -> None:
    """The other row in row 0's bucket, over 2,000 calls."""
    rows, counts = np.eye(8), np.zeros(8)
    for seed in range(2000):
        mixed = np.asarray(Bucketing(size=2).prepare(seen(rows, seed)).weights)
        bucket = mixed[mixed[:, 0] > 0][0]
        counts[np.nonzero(bucket[1:])[0][0] + 1] += 1
    assert chisquare(counts[1:]).pvalue > 1e-4


def test_the_mean_of_equal_buckets_is_the_mean() -> None:
    """Nothing is lost or counted twice."""
    rows = np.random.default_rng(0).normal(size=(12, 5))
    np.testing.assert_allclose((Bucketing(size=4) >> Mean())(rows), rows.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize("size", [0, -1])
def test_refuses_wrong_sizes(size: int) -> None:
    """At construction."""
    with pytest.raises(ValueError, match="Bucketing needs size >= 1"):
        Bucketing(size=size)
