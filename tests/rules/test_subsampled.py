"""Subsampled."""

from collections import Counter
from itertools import combinations

import naive
import numpy as np
import pytest

from mixtailor import FaultError, MixTailor
from mixtailor.rules import Bulyan, Comed, Krum, Mean, Subsampled
from mixtailor.testing.laws import FixedKey


def test_by_hand() -> None:
    """The mean of two of 1, 2, 4 is 1.5, 2.5 or 3."""
    rows = np.array([[1.0], [2.0], [4.0]])
    seen = {float(Subsampled(Mean(), 2)(rows, entropy=FixedKey(seed))[0]) for seed in range(40)}
    assert seen == {1.5, 2.5, 3.0}


def test_all_rows_is_the_rule_itself() -> None:
    """k = n draws everything."""
    rows = np.random.default_rng(0).normal(size=(7, 5))
    result = Subsampled(Krum(f=2), 7).aggregate(rows)
    own = Krum(f=2).aggregate(rows)
    np.testing.assert_array_equal(result.update, own.update)
    np.testing.assert_array_equal(result.scores, own.scores)
    assert result.selected == own.selected


def test_every_subset_is_as_likely() -> None:
    """Chi-square over the ten pairs of five rows at 2,000 draws: 30 has a chance of 4e-4."""
    rows = np.eye(5)
    draws = Counter(
        tuple(Subsampled(Mean(), 2).aggregate(rows, entropy=FixedKey(seed)).selected or ()) for seed in range(2000)
    )
    assert set(draws) == set(combinations(range(5), 2))
    assert sum((count - 200) ** 2 / 200 for count in draws.values()) < 30


def test_facts_are_of_the_rows_as_received() -> None:
    """Scores are at the rows that were drawn, and NaN elsewhere; a columnwise rule has the drawn rows as selected."""
    rows = np.random.default_rng(1).normal(size=(9, 4))
    result = Subsampled(Krum(f=1), 5).aggregate(rows, entropy=FixedKey(3))
    assert result.scores is not None and result.selected is not None
    drawn = np.nonzero(~np.isnan(result.scores))[0]
    assert len(drawn) == 5
    inner = Krum(f=1).aggregate(rows[drawn])
    assert inner.selected is not None
    np.testing.assert_allclose(result.scores[drawn], inner.scores)
    assert result.selected == (drawn[inner.selected[0]],)
    np.testing.assert_array_equal(result.update, rows[result.selected[0]])
    columns = Subsampled(Comed(), 3).aggregate(rows, entropy=FixedKey(3))
    np.testing.assert_array_equal(columns.update, np.median(rows[list(columns.selected or ())], axis=0))
    picked = Subsampled(Bulyan(f=1), 7).aggregate(rows, entropy=FixedKey(3))
    assert len(picked.selected or ()) == 5
    np.testing.assert_allclose(picked.update, naive.meamed(rows[list(picked.selected or ())], 2))


def test_requirement() -> None:
    """k rows must be enough for the rule, and n rows for k."""
    with pytest.raises(ValueError, match=r"k >= 7, the rows that Krum\(f=2\) needs \(n >= 2f \+ 3\).*got k = 6"):
        Subsampled(Krum(f=2), 6)
    with pytest.raises(ValueError, match=r"k >= 1 and got k = 0"):
        Subsampled(Comed(), 0)
    with pytest.raises(ValueError, match=r"needs at least 7 rows \(n >= k\) and got 6"):
        Subsampled(Krum(f=2), 7)(np.eye(6))
    with pytest.raises(TypeError, match="whole number"):
        Subsampled(Comed(), 2.5)  # type: ignore[arg-type]  # wrong on purpose


def test_faulty_rows_do_not_reach_the_answer() -> None:
    """Drawn rows that are not finite leave, f is lowered, and the draw is made among the rest."""
    rows = np.random.default_rng(2).normal(size=(7, 3))
    rows[[1, 4]] = np.nan
    for seed in range(10):
        result = Subsampled(Krum(f=2), 7).aggregate(rows, entropy=FixedKey(seed))
        assert np.isfinite(result.update).all()
        assert [item.row for item in result.quarantined] == [1, 4]


def test_it_withstands_what_the_rule_withstands_of_k() -> None:
    """All faulty rows may be drawn, so five rows do not tolerate more than a median of three does."""
    assert Subsampled(Comed(), 3).tolerates(11) == 1
    rows = np.zeros((3, 1))
    rows[:2] = np.nan
    with pytest.raises(FaultError):
        Subsampled(Comed(), 3)(rows)


def test_a_plain_callable_is_a_rule() -> None:
    """As everywhere in the package."""
    rule = Subsampled(lambda rows: rows.max(axis=0), 2)  # type: ignore[arg-type]  # taken as it is
    assert rule(np.array([[1.0], [1.0], [1.0]])) == [1.0]


def test_f_reaches_the_rule() -> None:
    """`with_f` changes the nested part."""
    assert Subsampled(Krum(f=2), 9).with_f(3) == Subsampled(Krum(f=3), 9)
    assert Subsampled(Krum(f=2), 9).declared_f() == 2


def test_a_pool_needs_k_rows_for_all_of_its_rules() -> None:
    """Twelve rows would allow Bulyan, and the eight that are drawn do not."""
    with pytest.raises(ValueError, match=r"Subsampled needs k >= 11, .*needs \(n >= 4f \+ 3, for Bulyan\(f=2\)\)"):
        Subsampled(MixTailor([Krum(2), Bulyan(2)]), k=8)
