"""MultiKrum."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked, seen

from mixtailor.rules import Krum, MultiKrum


def test_by_hand() -> None:
    """0, 1, 3, 7, 50 with f = 1: scores 10, 5, 13, 52, 4058; the best two are 1 and 0, the best four all but 50."""
    rows = np.array([[0.0], [1.0], [3.0], [7.0], [50.0]])
    np.testing.assert_array_equal(MultiKrum(f=1, m=2)(rows), [0.5])
    result = MultiKrum(f=1).aggregate(rows)
    np.testing.assert_array_equal(result.update, [2.75])
    np.testing.assert_allclose(result.scores, [10, 5, 13, 52, 43**2 + 47**2])
    assert result.selected == (0, 1, 2, 3)


def test_one_row_is_krum() -> None:
    """m = 1 is Krum, coefficient and all; for other m it is ours."""
    rows = attacked(1e4, n=9)
    np.testing.assert_array_equal(MultiKrum(f=2, m=1)(rows), Krum(f=2)(rows))
    assert MultiKrum(f=2, m=1).kappa(9, 2, 5) == Krum(f=2).kappa(9, 2, 5)
    assert MultiKrum(f=2).kappa(9, 2, 5) == pytest.approx(4 / 7 * (1 + (4 * 7 + 4) / 4))
    assert MultiKrum(f=2, power=1).kappa(9, 2, 5) is None


def test_requirement() -> None:
    """2f + 3 rows suffice and 2f + 2 do not; m rows cannot be averaged without a Byzantine one below m + f."""
    rows = np.arange(7.0)[:, None]
    assert np.isfinite(MultiKrum(f=2, m=5)(rows)).all()
    with pytest.raises(ValueError, match=r"MultiKrum\(f=2\) needs at least 7 rows \(n >= 2f \+ 3\) and got 6"):
        MultiKrum(f=2)(rows[:6])
    with pytest.raises(ValueError, match=r"needs at least 8 rows \(n >= 2f \+ 3 and n >= m \+ f\) and got 7"):
        MultiKrum(f=2, m=6)(rows)


@pytest.mark.parametrize("p", [1.0, 2.0, 16.0, np.inf])
@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("m", [None, 3])
def test_agrees_with_the_oracle(p: float, far: float, m: int | None) -> None:
    """Far rows have the worst scores and no part in the others'."""
    rows = attacked(far, outliers=3, seed=3)
    for power in (1, 2):
        result = MultiKrum(f=3, m=m, p=p, power=power).aggregate(rows)
        assert list(result.selected or ()) == naive.multi_krum_rows(rows, 3, m, p, power)
        np.testing.assert_allclose(result.update, naive.multi_krum(rows, 3, m, p, power), rtol=2e-7, atol=1e-7)


def test_on_fewer_rows_than_it_needs_one_neighbour_counts() -> None:
    """A selection inside Bulyan runs on 2f + 1 rows in the end: of 0, 1 and 3 with f = 1, the nearest ones."""
    point = MultiKrum(f=1).decide(seen(np.array([[0.0], [1.0], [3.0]])))
    np.testing.assert_array_equal(point.facts["scores"], [1.0, 1.0, 4.0])


def test_three_norms_give_three_answers() -> None:
    """One input on which p = 1, 2 and 16 choose three pairs."""
    rows = np.array([[2, 3, 5], [3, 3, 1], [2, 0, 3], [5, 3, 4], [2, 0, 2], [5, 3, 1]], np.float64)
    assert [MultiKrum(f=1, m=2, p=p).aggregate(rows).selected for p in (1, 2, 16)] == [(1, 3), (1, 2), (2, 4)]


def test_ties_go_to_the_lower_index() -> None:
    """The corners of a square score alike: the first two are taken, whichever they are."""
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [40.0, 0.0]])
    assert MultiKrum(f=1, m=2).aggregate(corners).selected == (0, 1)
    assert MultiKrum(f=1, m=2).aggregate(corners[::-1]).selected == (1, 2)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """A NaN row leaves; with m given, the same number of rows is averaged."""
    rows = attacked(1e8, n=10, outliers=1)
    rows[4, 17] = np.nan
    result = MultiKrum(f=2, m=3).aggregate(rows)
    assert [item.row for item in result.quarantined] == [4]
    left = np.delete(rows, 4, axis=0)
    np.testing.assert_allclose(result.update, naive.multi_krum(left, 2, 3), rtol=2e-7, atol=1e-7)


@pytest.mark.parametrize("m", [0, -1])
def test_wrong_arguments(m: int) -> None:
    """At least one row is averaged; powers are 1 and 2."""
    with pytest.raises(ValueError, match=f"m >= 1 and got m = {m}"):
        MultiKrum(f=1, m=m)
    with pytest.raises(ValueError, match="power = 2"):
        MultiKrum(f=1, power=0)
