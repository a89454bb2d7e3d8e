"""MDA."""

import itertools
import math

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.kernels.selection import by_neighbours
from mixtailor.rules import MDA
from mixtailor.rules._budget import Budget, neighbourhood
from mixtailor.rules.mda import coverable, first_without
from mixtailor.rules.plain import as_rule
from mixtailor.testing import climb


def expected(rows: np.ndarray, f: int) -> list[int]:
    """The first set of least diameter, rows taken in the order of their distances to the n - f - 1 nearest others."""
    between = naive.distances(rows).astype(float)
    order, _ = by_neighbours(between, len(rows) - f - 1, 1)
    return sorted(int(order[k]) for k in naive.mda_rows(rows[order], f))


def test_by_hand() -> None:
    """0, 1, 2, 4, 9 with f = 2: 0, 1, 2 has diameter 2 and 1, 2, 4 has 3."""
    result = MDA(f=2).aggregate(np.array([[4.0], [0.0], [9.0], [1.0], [2.0]]))
    np.testing.assert_array_equal(result.update, [1.0])
    assert result.selected == (1, 3, 4)
    assert result.facts["diameter"] == 2.0


def test_one_pair_decides_and_the_deepest_rows_stay() -> None:
    """The farthest two are 10 apart, the next two 9.1 and none of those: whichever end leaves, 9.1 stays. The order of
    the rows does not decide between them: the end that is nearer to the others stays."""
    rows = np.array([[0.0, 0.0], [10.0, 0.0], [5.0, 4.5], [5.0, -4.6], [5.5, 0.0]])
    chosen = MDA(f=1).aggregate(rows)
    assert chosen.facts["diameter"] == pytest.approx(9.1)
    for order in itertools.permutations(range(5)):
        np.testing.assert_allclose(MDA(f=1)(rows[list(order)]), chosen.update)


def test_equal_rows_and_symmetric_ties_go_to_the_lower_index() -> None:
    """0, 1, 2 with one to leave: 0 and 2 are equally deep, and the set with the lower index stays."""
    assert MDA(f=1).aggregate(np.array([[0.0], [1.0], [2.0]])).selected == (0, 1)
    assert MDA(f=1).aggregate(np.array([[2.0], [1.0], [0.0]])).selected == (0, 1)
    assert MDA(f=2).aggregate(np.ones((6, 2))).selected == (0, 1, 2, 3)


def test_requirement() -> None:
    """2f + 1 rows suffice and 2f do not."""
    rows = np.arange(5.0)[:, None] ** 2
    np.testing.assert_allclose(MDA(f=2)(rows), [5 / 3])
    with pytest.raises(ValueError, match=r"MDA\(f=2\) needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        MDA(f=2)(rows[:4])
    np.testing.assert_array_equal(MDA(f=0)(np.array([[1.0], [3.0]])), [2.0])


@pytest.mark.parametrize("seed", range(60))
def test_agrees_with_the_oracle(seed: int) -> None:
    """All subsets tried, with noise, small whole numbers full of ties, and d = 1."""
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 11))
    f = int(random.integers(0, (n - 1) // 2 + 1))
    d = int(random.choice([1, 2, 5, 40]))
    rows = random.normal(size=(n, d)) if seed % 2 else random.integers(-2, 3, size=(n, d)).astype(np.float32)
    assert list(MDA(f).aggregate(rows).selected or ()) == expected(rows, f)


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("outliers", [1, 3])
def test_far_rows(far: float, outliers: int) -> None:
    """They leave, and cost the others nothing."""
    rows = attacked(far, n=10, outliers=outliers)
    result = MDA(f=3).aggregate(rows)
    assert list(result.selected or ()) == expected(rows, 3)
    np.testing.assert_allclose(result.update, rows[list(result.selected or ())].mean(axis=0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_covers(seed: int) -> None:
    """Whether f rows end all conflicts, against trying all; rings, stars and random graphs."""
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 10))
    conflicts = np.triu(random.random((n, n)) < random.choice([0.15, 0.3, 0.6]), 1)
    if seed % 4 == 0:  # rings of three and more
        conflicts = np.triu(np.roll(np.eye(n, dtype=bool), 1, axis=1) | np.roll(np.eye(n, dtype=bool), -1, axis=1), 1)
    conflicts |= conflicts.T
    for f in range(n):
        free = [kept for kept in itertools.combinations(range(n), n - f) if not conflicts[np.ix_(kept, kept)].any()]
        assert coverable(conflicts, f, Budget(MDA(f))) == bool(free)
        if free:
            assert tuple(first_without(conflicts, f, Budget(MDA(f)))) == free[0]


def test_a_row_that_leaves_counts_among_those_that_may() -> None:
    """With row 0 three must leave, and with row 1 too, once row 0 has: 2, 3 and 4 are without conflict."""
    conflicts = np.zeros((5, 5), np.bool_)
    for one, other in [(0, 3), (0, 4), (1, 2), (1, 4)]:
        conflicts[one, other] = conflicts[other, one] = True
    assert list(first_without(conflicts, 2, Budget(MDA(2)))) == [2, 3, 4]


def test_of_a_ring_one_row_is_tried() -> None:
    """Two rings of three take four rows, and with three the search ends at the third node."""
    ring = ~np.eye(3, dtype=np.bool_)
    nothing = np.zeros((3, 3), np.bool_)
    budget = Budget(MDA(3))
    assert not coverable(np.block([[ring, nothing], [nothing, ring]]), 3, budget) and budget.spent == 3


def test_the_row_with_most_conflicts_may_have_to_stay() -> None:
    """Row 0 is in conflict with 1, 2 and 3, and these in pairs with 4, 5 and 6: the three leave, row 0 stays."""
    conflicts = np.zeros((7, 7), np.bool_)
    for one, other in [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (2, 5), (3, 5), (1, 6), (3, 6)]:
        conflicts[one, other] = conflicts[other, one] = True
    assert coverable(conflicts, 3, Budget(MDA(3)))
    assert list(first_without(conflicts, 3, Budget(MDA(3)))) == [0, 4, 5, 6]
    budget = Budget(MDA(3))
    assert not coverable(conflicts, 0, budget) and budget.spent == 1, "where none may leave, there is nothing to try"


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """A NaN row leaves, and f = 2 stays on the five rows left."""
    result = MDA(f=2).aggregate(np.array([[4.0], [0.0], [np.nan], [9.0], [1.0], [2.0]]))
    np.testing.assert_array_equal(result.update, [1.0])
    assert [item.row for item in result.quarantined] == [2]


def test_budget() -> None:
    """Beyond the budget the neighbourhood's mean is returned, without an error; what was spent is told."""
    rows = np.random.default_rng(0).normal(size=(30, 20))
    spent = MDA(f=12).aggregate(rows).facts["nodes"]
    assert isinstance(spent, int)
    exact = MDA(f=12, budget=spent).aggregate(rows)
    assert exact.facts["nodes"] == spent and "fallback" not in exact.facts
    result = MDA(f=12, budget=spent - 1).aggregate(rows)
    assert result.facts["nodes"] == spent - 1 and result.facts["fallback"] is True
    assert list(result.selected or ()) == naive.neighbourhood_rows(rows, 12)
    assert result.facts["diameter"] == pytest.approx(
        max(np.linalg.norm(rows[i] - rows[j]) for i in result.selected or () for j in result.selected or ())
    )
    with pytest.raises(ValueError, match="budget >= 100"):
        MDA(f=1, budget=99)


def test_the_fallback_keeps_the_coefficient() -> None:
    """Its own, (1 + sqrt 2)^2 f / (n - 2f), is below that of the search, but for five rows and fewer."""
    for f in range(1, 40):
        for n in range(max(6, 2 * f + 1), 200):
            kappa = MDA(f).kappa(n, f, 1)
            assert kappa is not None and (1 + math.sqrt(2)) ** 2 * f / (n - 2 * f) <= kappa


def test_five_rows_never_spend_the_least_budget() -> None:
    """There the search must end, whatever is sent."""
    random = np.random.default_rng(0)
    for case in range(300):
        n, f = [(3, 1), (4, 1), (5, 2), (5, 1)][case % 4]
        rows = random.normal(size=(n, 3)) if case % 2 else random.integers(-2, 3, size=(n, 2)).astype(float)
        assert "fallback" not in MDA(f, budget=100).aggregate(rows).facts


@pytest.mark.parametrize(("n", "f"), [(3, 1), (5, 2), (7, 2), (9, 4)])
def test_the_worst_rows_for_the_fallback_stay_below_its_coefficient(n: int, f: int) -> None:
    """A search for the worst rows, of the neighbourhood's mean alone."""

    def mean(rows: np.ndarray) -> np.ndarray:
        return rows[neighbourhood(naive.distances(rows).astype(float), f)].mean(axis=0)

    found = climb(as_rule(mean), n, f, d=1, steps=200).ratio
    assert 0.1 * (1 + math.sqrt(2)) ** 2 * f / (n - 2 * f) <= found <= (1 + math.sqrt(2)) ** 2 * f / (n - 2 * f)


@pytest.mark.parametrize(("n", "f", "d", "nodes"), [(14, 6, 20, 61), (12, 5, 4, 36), (10, 4, 50, 33), (20, 3, 5, 22)])
def test_no_bound_of_the_search_is_lost(n: int, f: int, d: int, nodes: int) -> None:
    """A branch that ends later than it may gives the same result: only the nodes show it."""
    assert MDA(f).aggregate(np.random.default_rng(0).normal(size=(n, d))).facts["nodes"] == nodes


@pytest.mark.parametrize(("n", "f"), [(100, 2), (100, 10), (50, 24), (20, 9), (13, 6)])
def test_practical_sizes(n: int, f: int) -> None:
    """Rows that are all about equally far apart, the hard case, stay far below the budget."""
    rows = np.random.default_rng(n + f).normal(size=(n, 300))
    result = MDA(f).aggregate(rows)
    assert isinstance(result.facts["nodes"], int) and result.facts["nodes"] < 20_000
    assert len(result.selected or ()) == n - f


@pytest.mark.parametrize(("n", "f"), [(3, 1), (5, 2), (7, 2)])
def test_coefficient(n: int, f: int) -> None:
    """A search for the worst rows stays below the coefficient, and is not idle."""
    kappa = MDA(f).kappa(n, f, 1)
    assert kappa is not None
    assert 0.3 * kappa <= climb(MDA(f), n, f, d=1, steps=200).ratio <= kappa * (1 + 1e-9)
