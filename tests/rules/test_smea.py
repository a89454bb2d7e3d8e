"""SMEA."""

import itertools

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.preaggregation import NNM
from mixtailor.rules import MDA, SMEA
from mixtailor.rules._budget import Budget
from mixtailor.rules.smea import _leaving
from mixtailor.testing import climb


def largest(rows: np.ndarray, chosen: object) -> float:
    """The largest eigenvalue of the covariance of the chosen rows, in d-space."""
    return naive.top_direction(rows[list(chosen)])[0]  # type: ignore[call-overload]  # a sequence of indices


def test_by_hand() -> None:
    """On a line the eigenvalue is the variance: of 0, 1, 2, 4, 9 the three of least variance are 0, 1, 2."""
    result = SMEA(f=2).aggregate(np.array([[4.0], [0.0], [9.0], [1.0], [2.0]]))
    np.testing.assert_array_equal(result.update, [1.0])
    assert result.selected == (1, 3, 4)


def test_it_looks_at_directions_and_not_at_diameters() -> None:
    """Without row 1 the diameter is least, sqrt(32), and without row 0 the widest direction is."""
    rows = np.array([[-3.0, -1.0], [3.0, 1.0], [-1.0, 3.0], [1.0, 3.0], [-3.0, 0.0]])
    assert MDA(f=1).aggregate(rows).selected == (0, 2, 3, 4)
    assert SMEA(f=1).aggregate(rows).selected == (1, 2, 3, 4)


def test_of_equal_spreads_the_lexicographically_first_set_wins() -> None:
    """0, 1, 2 and 1, 2, 3 spread alike, and their ends are as far apart as any two rows with that spread can be."""
    assert SMEA(f=1).aggregate(np.array([[1.0], [3.0], [2.0], [0.0]])).selected == (0, 1, 2)


@pytest.mark.parametrize("least", [5e-324, 1e-165])
def test_distances_whose_squares_vanish_beside_a_row_at_one(least: float) -> None:
    """Nothing is left to compare: the rows nearest to the medoid are kept."""
    rows = np.array([[0.0], [least], [0.0], [0.0], [1.0]])
    assert SMEA(f=1).aggregate(rows).selected == (0, 1, 2, 3)
    least = 2.25e-162  # its square is the least number, and so is a spread that should be twice that
    rows = np.array([[0.0], [0.0], [0.0], [0.0], [least], [-least], [1.0]])
    assert SMEA(f=1).aggregate(rows).selected == (0, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("exponent", [-440, 440])
def test_the_choice_is_the_same_at_every_size(exponent: int) -> None:
    """At both ends of the range."""
    for seed in range(4):
        rows = np.random.default_rng(seed).normal(size=(9, 4))
        assert SMEA(f=3).aggregate(np.ldexp(rows, exponent)).selected == SMEA(f=3).aggregate(rows).selected


def test_requirement() -> None:
    """2f + 1 rows suffice and 2f do not."""
    rows = np.arange(5.0)[:, None] ** 2
    np.testing.assert_allclose(SMEA(f=2)(rows), [5 / 3])
    with pytest.raises(ValueError, match=r"SMEA\(f=2\) needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        SMEA(f=2)(rows[:4])
    np.testing.assert_array_equal(SMEA(f=0)(np.array([[1.0], [3.0]])), [2.0])


@pytest.mark.parametrize("seed", range(60))
def test_agrees_with_the_oracle(seed: int) -> None:
    """All subsets tried in d-space; where whole numbers make ties, another set of the same eigenvalue will do."""
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 11))
    f = int(random.integers(0, (n - 1) // 2 + 1))
    d = int(random.choice([1, 2, 3, 7, 40]))
    rows = random.normal(size=(n, d)) if seed % 3 else random.integers(-2, 3, size=(n, d)).astype(np.float32)
    chosen, best = SMEA(f).aggregate(rows).selected, naive.smea_rows(rows, f)
    if seed % 3:
        assert list(chosen or ()) == best
    assert largest(rows, chosen) <= largest(rows, best) * (1 + 1e-8) + 1e-14


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize(("n", "outliers"), [(5, 2), (11, 1), (11, 4)])
def test_far_rows(far: float, n: int, outliers: int) -> None:
    """They leave before anything is centred, and the rest is decided as if they had never come."""
    f = (n - 1) // 2
    for dtype in (np.float32, np.float64):
        rows = attacked(far, n=n, outliers=outliers, dtype=dtype)
        near = [row for row in range(n) if np.linalg.norm(rows[row].astype(np.float64)) < 100]
        expected = [near[k] for k in naive.smea_rows(rows[near], f - outliers)]
        result = SMEA(f).aggregate(rows)
        assert list(result.selected or ()) == expected
        exact = naive.mean(rows[expected])
        np.testing.assert_allclose(result.update, exact, rtol=1e-6, atol=1e-6)


def test_ties_go_to_the_lexicographically_first() -> None:
    """Corners of a simplex: every set spreads alike. Equal rows: nothing spreads. A square and its middle: whichever
    row leaves, the largest eigenvalue of the scatter is 4."""
    assert SMEA(f=4).aggregate(np.eye(9)).selected == (0, 1, 2, 3, 4)
    assert SMEA(f=2).aggregate(np.ones((6, 3))).selected == (0, 1, 2, 3)
    assert SMEA(f=2).aggregate(np.array([[7.0], [1.0], [1.0], [1.0], [9.0]])).selected == (1, 2, 3)
    # Three rows are equal, and which of them leaves is the same: rounding must not miss the last.
    cross = np.array([[0, 0], [1, -1], [-1, 0], [0, -1], [-1, 0], [1, 1], [-1, 0], [0, 1]], dtype=float)
    assert SMEA(f=1).aggregate(cross).selected == (0, 1, 2, 3, 4, 5, 7)
    square = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])
    assert SMEA(f=1).aggregate(square).selected == (0, 1, 2, 3)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e30])
def test_size_does_not_matter(size: float) -> None:
    """The same rows are chosen at every size."""
    rows = np.random.default_rng(3).normal(size=(11, 8))
    assert SMEA(f=4).aggregate(size * rows).selected == SMEA(f=4).aggregate(rows).selected


def test_behind_mixing() -> None:
    """NNM makes rows that are equal or nearly so; the result is that of the mixed rows."""
    rows = attacked(1e8, n=9, outliers=2, dtype=np.float64)
    mixed = naive.nnm(rows, 2)
    answer = (NNM(f=2) >> SMEA(f=2))(rows)
    np.testing.assert_allclose(answer, naive.smea(mixed, 2), atol=1e-6)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """A NaN row leaves, and f = 2 stays on the five rows left."""
    result = SMEA(f=2).aggregate(np.array([[4.0], [0.0], [np.nan], [9.0], [1.0], [2.0]]))
    np.testing.assert_array_equal(result.update, [1.0])
    assert [item.row for item in result.quarantined] == [2]


def test_budget() -> None:
    """Beyond the budget the neighbourhood's mean is returned, without an error; what was spent is told."""
    rows = np.random.default_rng(0).normal(size=(14, 20))
    spent = SMEA(f=6).aggregate(rows).facts["nodes"]
    assert isinstance(spent, int) and spent > 10
    exact = SMEA(f=6, budget=spent).aggregate(rows)
    assert exact.facts["nodes"] == spent and "fallback" not in exact.facts
    result = SMEA(f=6, budget=spent - 1).aggregate(rows)
    assert result.facts["nodes"] == spent - 1 and result.facts["fallback"] is True
    assert list(result.selected or ()) == naive.neighbourhood_rows(rows, 6)
    np.testing.assert_allclose(result.update, rows[naive.neighbourhood_rows(rows, 6)].mean(axis=0))
    with pytest.raises(ValueError, match="budget >= 1"):
        SMEA(f=1, budget=0)


@pytest.mark.parametrize("seed", range(8))
def test_ordinary_rows_of_byzantine_workers_do_not_stop_it(seed: int) -> None:
    """Gaussian rows of f = 10 of 50 workers spend the budget of the search; the result keeps the coefficient."""
    rows = np.random.default_rng(seed).normal(size=(50, 40))
    result = SMEA(f=10, budget=300).aggregate(rows)
    assert result.facts["fallback"] is True
    honest = rows[10:]
    variance = ((honest - honest.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert ((result.update - honest.mean(axis=0)) ** 2).sum() <= SMEA(10).kappa(50, 10, 40) * variance


@pytest.mark.parametrize("seed", range(20))
def test_none_is_missed_and_the_order_is_lexicographic(seed: int) -> None:
    """The search for rows that leave, against all subsets: in the order that those who stay have in a lexicon."""
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 8))
    matrix = 3 * random.normal(size=(size, size))
    matrix = matrix + matrix.T - float(random.choice([0, 2, 6])) * np.eye(size)
    rows = 10 + np.arange(size)
    for count in range(1, size + 1):
        for negative in range(-1, count + 2):
            budget = Budget(SMEA(0))
            found = [sorted(leaving) for leaving in _leaving(matrix, rows, count, negative, 1e-14, budget)]
            expected = [
                [10 + place for place in places]
                for places in itertools.combinations(range(size), count)
                if (np.linalg.eigvalsh(matrix[np.ix_(places, places)]) < 0).sum() >= negative
            ]
            assert found == expected[::-1]
            assert negative > 0 or budget.spent == 1 + len(found), "also sets that are had for nothing are counted"


@pytest.mark.parametrize(
    ("n", "f", "d", "nodes"), [(14, 6, 20, 580), (12, 5, 4, 63), (10, 4, 50, 47), (9, 3, 2, 2), (20, 3, 5, 68)]
)
def test_no_bound_of_the_search_is_lost(n: int, f: int, d: int, nodes: int) -> None:
    """A branch that ends later than it may gives the same result: only the nodes show it."""
    assert SMEA(f).aggregate(np.random.default_rng(0).normal(size=(n, d))).facts["nodes"] == nodes


@pytest.mark.parametrize(("n", "f", "d"), [(100, 2, 300), (50, 2, 5), (20, 9, 50), (17, 8, 1)])
def test_practical_sizes(n: int, f: int, d: int) -> None:
    """Rows that spread alike in all directions, the hard case, stay below half of the budget; no swap improves."""
    rows = np.random.default_rng(n).normal(size=(n, d))
    result = SMEA(f).aggregate(rows)
    assert isinstance(result.facts["nodes"], int) and result.facts["nodes"] < 50_000
    kept = set(result.selected or ())
    products = rows @ rows.T

    def spread(chosen: set[int]) -> float:
        inner = products[np.ix_(sorted(chosen), sorted(chosen))]
        centred = inner - inner.mean(axis=0) - inner.mean(axis=1, keepdims=True) + inner.mean()
        return float(np.linalg.eigvalsh(centred)[-1])

    best = spread(kept)
    for back, out in itertools.product(set(range(n)) - kept, kept):
        assert spread(kept - {out} | {back}) >= best * (1 - 1e-9)


@pytest.mark.parametrize(("n", "f"), [(3, 1), (5, 1), (7, 2)])
def test_coefficient(n: int, f: int) -> None:
    """A search for the worst rows stays below the published coefficient, 4 in place of 6, and is not idle."""
    kappa = SMEA(f).kappa(n, f, 1)
    assert kappa is not None
    kappa *= 4 / 6
    assert 0.3 * kappa <= climb(SMEA(f), n, f, d=1, steps=200).ratio <= kappa
