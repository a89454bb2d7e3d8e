"""Medoid."""

from decimal import Decimal, localcontext

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.preaggregation import Resampling
from mixtailor.rules import Medoid, Rule


def test_by_hand() -> None:
    """0, 1, 2, 4, 90: sums 97, 94, 93, 95, 353."""
    result = Medoid().aggregate(np.array([[0.0], [1.0], [2.0], [4.0], [90.0]]))
    np.testing.assert_array_equal(result.update, [2.0])
    np.testing.assert_allclose(result.scores, [97, 94, 93, 95, 353])


def test_one_row_and_ties() -> None:
    """n >= 1, and of two rows, which are equally far from each other, the first."""
    np.testing.assert_array_equal(Medoid()(np.array([[7.0, 1.0]])), [7.0, 1.0])
    np.testing.assert_array_equal(Medoid()(np.array([[7.0], [1.0]])), [7.0])
    np.testing.assert_array_equal(Medoid()(np.array([[3.0], [5.0], [5.0], [5.0], [2e9]])), [5.0])


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("n", [3, 8, 21])
def test_agrees_with_the_oracle(p: float, n: int) -> None:
    """Rows of one size, and d = 1."""
    for d in (1, 60):
        rows = np.random.default_rng(n).normal(size=(n, d))
        np.testing.assert_array_equal(Medoid(p=p)(rows), naive.medoid(rows, p=p))


def exact_medoid(rows: np.ndarray) -> int:
    """By sums of Euclidean distances in 120 digits."""
    with localcontext() as context:
        context.prec = 120
        values = [[Decimal(float(value)) for value in row] for row in rows]
        sums = [sum(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)).sqrt() for y in values) for x in values]
        return min(range(len(sums)), key=sums.__getitem__)


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("outliers", [1, 4])
def test_far_rows_do_not_swallow_the_others(far: float, outliers: int) -> None:
    """A distance of 1e38 has no digits for the spread of the honest rows, and yet pulls on them: with p = 2 the row is
    the one that exact arithmetic finds."""
    for seed in range(3):
        rows = attacked(far, n=10, d=6, outliers=outliers, seed=seed)
        assert Medoid().aggregate(rows).selected == (exact_medoid(rows),)


@pytest.mark.parametrize("p", [1.0, 3.0, np.inf])
@pytest.mark.parametrize("far", [1e16, 1e20, 1e38])
def test_far_rows_in_other_norms(p: float, far: float) -> None:
    """A row beyond all digits is left out of the sums: at 1e16, distances are whole even numbers, and noise."""
    rows = attacked(far, n=9, outliers=2, seed=1)
    answer = Medoid(p=p)(rows)
    np.testing.assert_array_equal(answer, Medoid(p=p)(rows[::-1]))
    near = np.delete(rows, [1, 3], axis=0)
    np.testing.assert_array_equal(answer, naive.medoid(near, p=p))


def test_scores_beside_a_far_row_are_less_the_sum_of_a_middle_row() -> None:
    """0, 1, 3, 7 and one beyond all digits: sums 11, 8, 6, 10 and the far one's, of which 8 is taken off; in other
    norms the sums 11, 9, 9, 17 are those of the four, less 9."""
    rows = np.array([[0.0], [1.0], [3.0], [7.0], [2.0**70]])
    for p, expected in ((2.0, [3.0, 0.0, -2.0, 2.0]), (1.0, [2.0, 0.0, 0.0, 8.0])):
        scores = Medoid(p=p).aggregate(rows).scores
        assert scores is not None and scores[4] > 2e21
        np.testing.assert_allclose(scores[:4], expected, atol=1e-9)


def test_three_norms_give_three_answers() -> None:
    """One input on which p = 1, 2 and 16 choose three rows."""
    rows = np.array([[5, 5, 0], [3, 5, 0], [2, 3, 1], [4, 5, 2], [4, 0, 2]], np.float64)
    assert [Medoid(p=p).aggregate(rows).selected for p in (1, 2, 16)] == [(3,), (1,), (2,)]


def test_fewer_than_half_cannot_take_it_away() -> None:
    """The medoid is within 2 / (n - 2f) times the sum of honest distances of every honest row, wherever f rows are."""
    n, f = 7, 3
    random = np.random.default_rng(5)
    honest = random.normal(size=(n - f, 3))
    between = naive.distances(honest).astype(float)
    for far in (0.5, 1.0, 2.0, 5.0, 100.0):
        for _ in range(20):
            rows = np.vstack([honest, far * random.normal(size=3) + 0.01 * random.normal(size=(f, 3))])
            reach = naive.distances_to(honest, Medoid()(rows)).astype(float)
            assert (reach <= 2 / (n - 2 * f) * between.sum(axis=1) + 1e-12).all()
    assert Medoid().tolerates(7) == 3


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """NaN rows leave, and the medoid is of the rows left."""
    result = Medoid().aggregate(np.array([[np.nan], [0.0], [1.0], [np.inf], [5.0]]))
    np.testing.assert_array_equal(result.update, [1.0])
    assert [item.row for item in result.quarantined] == [0, 3]


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_at_the_end_of_the_range(p: float) -> None:
    """The choice is that at a smaller size."""
    rows = 1e122 * np.random.default_rng(0).normal(size=(9, 2))
    rows[:4] = 1e138 * np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, 0.0], [0.0, -0.5]])
    result, smaller = Medoid(p=p).aggregate(rows), Medoid(p=p).aggregate(1e-100 * rows)
    assert result.selected == smaller.selected and result.scores is not None and smaller.scores is not None
    assert np.isfinite(result.scores).all()
    np.testing.assert_array_equal(np.argsort(result.scores[4:]), np.argsort(smaller.scores[4:]))


@pytest.mark.parametrize("rule", [Medoid(p=7.0), Resampling(repeats=1) >> Medoid(p=7.0)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_two_far_sizes_beside_equal_ones(rule: Rule, dtype: type) -> None:
    """The rounding of the distance between two far rows does not bring the nearer one in front of the equal ones."""
    random = np.random.default_rng(0)
    for _ in range(100):
        rows = np.zeros((5, 8))
        far = random.uniform(20, 36)
        rows[1], rows[4] = 10**far * random.normal(size=8), 10 ** (far - random.uniform(14, 16)) * random.normal(size=8)
        np.testing.assert_array_equal(rule(rows.astype(dtype)), np.zeros(8))


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("size", [2.0**-200, 2.0**-40, 2.0**40])
def test_far_rows_cost_no_digits_at_any_size(far: float, size: float) -> None:
    """What is far is so in units of the others' distance."""
    rows = attacked(far, outliers=3, dtype=np.float64, seed=1)
    assert Medoid().aggregate(size * rows).selected == Medoid().aggregate(rows).selected == (9,)
