"""Krum."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked, seen

from mixtailor.rules import Krum


def test_by_hand() -> None:
    """0, 1, 3, 7, 50 with f = 1, two neighbours each: scores 10, 5, 13, 52 and 43^2 + 47^2."""
    result = Krum(f=1).aggregate(np.array([[0.0], [1.0], [3.0], [7.0], [50.0]]))
    np.testing.assert_array_equal(result.update, [1.0])
    np.testing.assert_allclose(result.scores, [1 + 9, 1 + 4, 4 + 9, 16 + 36, 43**2 + 47**2])
    assert result.selected == (1,)


def test_power_one_is_the_unsquared_variant() -> None:
    """0, 1, 6, 9, 13: row 3 has neighbours at 3 and 4 and wins when squared, 25 to 26; row 1, at 1 and 5, when not."""
    rows = np.array([[0.0], [1.0], [6.0], [9.0], [13.0]])
    squared, plain = Krum(f=1).aggregate(rows), Krum(f=1, power=1).aggregate(rows)
    np.testing.assert_allclose(squared.scores, [37, 26, 34, 25, 65])
    np.testing.assert_allclose(plain.scores, [7, 6, 8, 7, 11])
    assert (squared.selected, plain.selected) == ((3,), (1,))


def test_requirement() -> None:
    """2f + 3 rows suffice and 2f + 2 do not."""
    rows = np.arange(7.0)[:, None]
    assert np.isfinite(Krum(f=2)(rows)).all()
    with pytest.raises(ValueError, match=r"Krum\(f=2\) needs at least 7 rows \(n >= 2f \+ 3\) and got 6"):
        Krum(f=2)(rows[:6])


def test_on_fewer_rows_than_it_needs_one_neighbour_counts() -> None:
    """Inside another rule it may run on 2f + 1 rows: of 0, 1 and 3 with f = 1, the nearest ones."""
    point = Krum(f=1).decide(seen(np.array([[0.0], [1.0], [3.0]])))
    np.testing.assert_array_equal(point.facts["scores"], [1.0, 1.0, 4.0])


def test_ties_go_to_the_lowest_index() -> None:
    """The corners of a square about its middle: all corners score alike, and so do equal rows."""
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [40.0, 0.0]])
    np.testing.assert_array_equal(Krum(f=1)(corners), [1.0, 1.0])
    np.testing.assert_array_equal(Krum(f=1)(corners[[4, 3, 2, 1, 0]]), [-1.0, -1.0])


@pytest.mark.parametrize("p", [1.0, 2.0, 2.5, 16.0, np.inf])
@pytest.mark.parametrize("far", FAR)
def test_agrees_with_the_oracle(p: float, far: float) -> None:
    """Far rows have no part in the scores of the others."""
    rows = attacked(far, outliers=3, seed=int(p) if np.isfinite(p) else 99)
    for power in (1, 2):
        np.testing.assert_array_equal(Krum(f=3, p=p, power=power)(rows), naive.krum(rows, 3, p, power))


def test_three_norms_give_three_answers() -> None:
    """One input on which p = 1, 2 and 16 choose three rows: the norm is not decoration."""
    rows = np.array([[0, 4, 1], [4, 4, 0], [1, 3, 1], [2, 2, 3], [4, 4, 1], [3, 4, 4]], np.float64)
    assert [Krum(f=1, p=p).aggregate(rows).selected for p in (1, 2, 16)] == [(4,), (2,), (3,)]


@pytest.mark.parametrize("seed", range(4))
def test_near_duplicates(seed: int) -> None:
    """Rows that differ by 1e-4 about 1 are told apart in float32 as exact arithmetic does."""
    random = np.random.default_rng(seed)
    rows = (1 + 1e-4 * random.normal(size=(9, 300))).astype(np.float32)
    np.testing.assert_array_equal(Krum(f=3)(rows), naive.krum(rows, 3))


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """A NaN row leaves, and the others decide as if it had never come."""
    rows = attacked(1e8, n=9, outliers=1)
    rows[4, 17] = np.nan
    result = Krum(f=2).aggregate(rows)
    assert [item.row for item in result.quarantined] == [4]
    np.testing.assert_array_equal(result.update, naive.krum(np.delete(rows, 4, axis=0), 2))


def test_wrong_arguments() -> None:
    """Refused at construction, with what is needed."""
    with pytest.raises(ValueError, match="power = 2"):
        Krum(f=1, power=3)
    with pytest.raises(ValueError, match="f >= 0"):
        Krum(f=-1)
    with pytest.raises(ValueError, match="p from 1 to infinity"):
        Krum(f=1, p=0.5)
