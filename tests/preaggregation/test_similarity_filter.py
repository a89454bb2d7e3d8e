"""SimilarityFilter."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked, seen

from mixtailor.preaggregation import SimilarityFilter
from mixtailor.rules import Comed, Krum, Mean


def test_by_hand() -> None:
    """Of 0, 1, 1.25, 3 the middle two are closer than a half, and both leave."""
    rows = np.array([[0.0], [1.0], [1.25], [3.0]])
    np.testing.assert_array_equal(SimilarityFilter(0.5).prepare(seen(rows)).matrix(), [[0.0], [3.0]])


def test_exactly_eps_apart_passes() -> None:
    """Similar is closer than eps, and not equally far."""
    rows = np.array([[0.0], [0.5], [3.0]])
    assert SimilarityFilter(0.5).prepare(seen(rows)).n == 3
    assert SimilarityFilter(0.500001).prepare(seen(rows)).n == 1


def test_the_norm_decides() -> None:
    """Rows that differ by 1 in four coordinates are 4, 2 and 1 apart for p = 1, 2 and infinity."""
    rows = np.vstack([np.zeros(4), np.ones(4), np.full(4, 9.0)])
    kept = [SimilarityFilter(1.5, p=p).prepare(seen(rows)).n for p in (1, 2, np.inf)]
    assert kept == [3, 3, 1]


def test_colluding_rows_leave() -> None:
    """Attackers who all send the same do not reach the mean behind."""
    rows = attacked(50.0, outliers=3, dtype=np.float64)
    honest = np.delete(rows, [1, 3, 5], axis=0)
    np.testing.assert_allclose((SimilarityFilter(0.01) >> Mean())(rows), honest.mean(axis=0), rtol=1e-12)


def test_what_comes_behind() -> None:
    """A faulty row that copies an honest one takes it along: at worst n - 2f rows are left, and the rule has enough."""
    assert SimilarityFilter(0.1).after(12, 2) == (8, 2)
    rule = SimilarityFilter(0.01) >> Krum(f=2)
    assert rule.min_rows() == 11
    rows = attacked(1.0, n=11, outliers=0, dtype=np.float64)
    rows[:2] = rows[2:4]
    result = rule.aggregate(rows)
    expected = naive.krum(rows[4:], 2)
    np.testing.assert_array_equal(result.update, expected)
    with pytest.raises(ValueError, match=r"at least 11 rows \(n >= 2f \+ 3 behind SimilarityFilter\(eps=0.01\)\)"):
        rule(rows[:10])


def test_without_an_f_it_withstands_what_is_left_of_the_rule_behind() -> None:
    """Comed on n - 2f rows tolerates f where n >= 4f + 1."""
    rule = SimilarityFilter(0.1) >> Comed()
    assert [rule.tolerates(n) for n in (1, 4, 5, 8, 9)] == [0, 0, 1, 1, 2]


def test_too_few_rows_left() -> None:
    """Honest rows that are similar leave too, and the call says that the rule has too few."""
    rows = attacked(1.0, n=12, outliers=0, dtype=np.float64)
    rows[:8] = rows[0]
    with pytest.raises(ValueError, match=r"Krum\(f=2\) needs at least 7 rows .*SimilarityFilter.* and got 4"):
        (SimilarityFilter(0.01) >> Krum(f=2))(rows)


def test_no_row_left() -> None:
    """An eps above all distances is named."""
    with pytest.raises(ValueError, match=r"SimilarityFilter\(eps=50\) needs rows .* got 11 .* Lower eps\."):
        (SimilarityFilter(50.0) >> Comed())(attacked(1.0, outliers=0))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, np.inf])
def test_agrees_with_the_oracle(seed: int, p: float) -> None:
    """The same rows stay."""
    random = np.random.default_rng(seed)
    rows = random.integers(0, 4, size=(12, 3)).astype(float)
    eps = float(random.choice([0.5, 1.0, 1.3]))
    expected = naive.similarity_filter(rows, eps, p)
    if len(expected):
        np.testing.assert_array_equal(SimilarityFilter(eps, p=p).prepare(seen(rows)).matrix(), expected)
    else:
        with pytest.raises(ValueError, match="Lower eps"):
            SimilarityFilter(eps, p=p).prepare(seen(rows))


@pytest.mark.parametrize("far", FAR)
def test_far_rows_cost_no_digits(far: float) -> None:
    """Two honest rows 1e-3 spreads apart are told from equal ones, however far an outlier is."""
    rows = attacked(far)
    rows[4] = rows[2]
    rows[4, 0] += np.float32(1e-3)
    stay = SimilarityFilter(0.9e-3).prepare(seen(rows)).n
    leave = SimilarityFilter(1.1e-3).prepare(seen(rows)).n
    assert (stay, leave) == (11, 9)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """It leaves as faulty and takes nobody along."""
    rows = attacked(2.0, dtype=np.float64)
    rows[4] = np.nan
    result = (SimilarityFilter(0.01) >> Comed()).aggregate(rows)
    np.testing.assert_allclose(result.update, np.median(np.delete(rows, 4, axis=0), axis=0))
    assert [fault.row for fault in result.quarantined] == [4]


@pytest.mark.parametrize("eps", [0.0, -1.0, float("nan")])
def test_refuses_wrong_eps(eps: float) -> None:
    """At construction."""
    with pytest.raises(ValueError, match="SimilarityFilter needs eps > 0"):
        SimilarityFilter(eps)


def test_what_a_rule_behind_it_must_withstand() -> None:
    """f faulty rows can take as many others with them, and no more than there are."""
    assert [SimilarityFilter(0.1).after(n, 2) for n in (12, 5, 4, 3)] == [(8, 2), (1, 2), (0, 2), (0, 2)]


def test_distances_are_euclidean_unless_told_otherwise() -> None:
    """(0, 0) and (1, 1) are 1.41 apart, and 1.26 in the norm 3."""
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [5.0, 0.0]])
    assert SimilarityFilter(1.3).prepare(seen(rows)).n == 3
    assert SimilarityFilter(1.3, p=3).prepare(seen(rows)).n == 1
