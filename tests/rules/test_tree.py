"""Tree."""

import itertools

import naive
import numpy as np
import pytest

import mixtailor as mt
from mixtailor import Comed, FaultError, GeometricMedian, Krum, Mean, Tree, TrimmedMean
from mixtailor.rules.tree import Shares
from mixtailor.testing.laws import FixedKey


def test_by_hand() -> None:
    """Branches of two of 1, 2, 4, 8: the mean of their means is one number; the larger of them depends on the draw."""
    rows = np.array([[1.0], [2.0], [4.0], [8.0]])
    assert Tree(2, Mean(), Mean())(rows) == [3.75]
    seen = {float(Tree(2, Mean(), largest)(rows, entropy=FixedKey(seed))[0]) for seed in range(40)}
    assert seen == {6.0, 5.0, 4.5}


def largest(rows: np.ndarray) -> np.ndarray:
    return rows.max(axis=0)


@pytest.mark.parametrize("inner", [Krum(f=4), Comed(), TrimmedMean(f=4), GeometricMedian(), mt.NNM(f=4) >> Comed()])
@pytest.mark.parametrize("outer", [Comed(), GeometricMedian(), Krum(f=4)])
def test_is_the_rules_on_the_branches_it_names(inner: mt.Rule, outer: mt.Rule) -> None:
    """Float64 rows, one rule at a time."""
    rows = np.random.default_rng(3).normal(size=(60, 7))
    rule = Tree(6, inner, outer)
    result = rule.aggregate(rows)
    b, g = rule.shares(60)
    assert (result.facts["tolerated_in_a_branch"], result.facts["tolerated_branches"]) == (b, g)
    branches = result.facts["branches"]
    assert sorted(itertools.chain(*branches)) == list(range(60))
    made = np.stack([inner.with_f(b)(rows[list(branch)]) for branch in branches])
    np.testing.assert_allclose(result.update, outer.with_f(g)(made), rtol=1e-12)
    if result.weights is not None:
        np.testing.assert_allclose(result.weights @ rows, result.update, rtol=1e-9, atol=1e-12)


def test_weights_are_reported_where_both_levels_combine() -> None:
    rows = np.random.default_rng(3).normal(size=(30, 7))
    result = Tree(5, Krum(f=2), Krum(f=2)).aggregate(rows)
    assert result.weights is not None and result.selected is not None and len(result.selected) == 1
    np.testing.assert_array_equal(rows[result.selected[0]], result.update)
    assert Tree(5, Comed(), Krum(f=2)).aggregate(rows).weights is None


@pytest.mark.parametrize(
    ("inner", "outer", "branches", "n", "expected"),
    [
        (Krum(f=6), Comed(), 10, 100, Shares(2, 2)),
        (Krum(f=0), Comed(), 10, 100, Shares(0, 0)),
        (Mean(), Krum(f=3), 10, 100, Shares(0, 3)),  # a mean tolerates nothing: every fault may cost a branch
        (Krum(f=3), Mean(), 10, 100, Shares(3, 0)),  # and as the outer rule, no branch may fail
        (Comed(), Comed(), 5, 25, Shares(2, 2)),  # without an f: all that both tolerate
    ],
)
def test_shares(inner: mt.Rule, outer: mt.Rule, branches: int, n: int, expected: Shares) -> None:
    assert Tree(branches, inner, outer).shares(n) == expected


def test_tolerates_what_the_levels_do_together() -> None:
    """Two faults in a branch cost nothing, three cost a branch, and two branches may be lost: eight in all."""
    rule = Tree(5, Comed(), Comed())
    assert rule.tolerates(25) == 8
    rows = np.zeros((25, 2))
    for seed in range(20):
        spoiled = rows.copy()
        spoiled[np.random.default_rng(seed).choice(25, 8, replace=False)] = 1e9
        np.testing.assert_array_equal(rule(spoiled, entropy=FixedKey(seed)), [0.0, 0.0])


@pytest.mark.parametrize("f", range(9))
def test_the_requirement_is_exact(f: int) -> None:
    """The least n has a division of f; one branch of one update less has none, or a quarantine leaves too few."""
    rule = Tree(5, Krum(f=f), TrimmedMean(f=f))
    least = rule.min_rows()
    assert rule.shares(least).inner <= f
    if least != f + 5 * 3:  # three updates are the fewest for Krum
        assert least % 5 == 0
        for b in range(f + 1):
            assert not (2 * b + 3 <= least // 5 - 1 and 2 * (f // (b + 1)) + 1 <= 5)
    with pytest.raises(ValueError, match=f"needs at least {least} rows"):
        rule(np.zeros((least - 1, 2)))


@pytest.mark.parametrize("inner", [TrimmedMean(f=3), GeometricMedian(), mt.NNM(f=3) >> TrimmedMean(f=3)])
@pytest.mark.parametrize("far", [1.0, 3.0, 30.0])
def test_the_coefficient_holds(inner: mt.Rule, far: float) -> None:
    """On rows of two dimensions with the faults in the worst place of a few, and for every honest set."""
    n, f, d = 40, 3, 2
    rule = Tree(5, inner, TrimmedMean(f=3))
    kappa = rule.kappa(n, f, d)
    assert kappa is not None and kappa > 1.0
    random = np.random.default_rng(0)
    for seed in range(30):
        rows = random.standard_t(3, size=(n, d))
        rows[:f] = far * random.normal(size=d)
        honest = rows[f:]
        variance = ((honest - honest.mean(axis=0)) ** 2).sum(axis=1).mean()
        error = ((rule(rows, entropy=FixedKey(seed)) - honest.mean(axis=0)) ** 2).sum()
        assert error <= kappa * variance


def test_the_coefficient_is_the_formula() -> None:
    """Forty updates in five branches of eight; one fault in a branch, one branch lost."""
    rule = Tree(5, TrimmedMean(f=3), TrimmedMean(f=3))
    assert rule.shares(40) == (1, 1)
    inner, outer = TrimmedMean(f=1).kappa(8, 1, 2), TrimmedMean(f=1).kappa(5, 1, 2)
    assert rule.kappa(40, 3, 2) == pytest.approx((1 + inner) * (1 + outer) * 37 / (4 * 7))
    assert Tree(8, Mean(), Comed()).kappa(40, 3, 2) is None, "none is published for the mean"


def test_faults_in_all_branches_are_named() -> None:
    """Also those that no distance was asked about."""
    rows = np.random.default_rng(0).normal(size=(40, 6))
    rows[[3, 30]] = np.nan
    for branches, inner in ((5, Krum(f=3)), (5, Comed()), (8, Mean())):
        result = Tree(branches, inner, TrimmedMean(f=3)).aggregate(rows)
        assert [each.row for each in result.quarantined] == [3, 30]
        assert np.isfinite(result.update).all()
    rows[:4] = np.inf
    with pytest.raises(FaultError):
        Tree(5, Krum(f=3), TrimmedMean(f=3))(rows)


def test_from_distances_alone() -> None:
    """Where both levels decide from distances, so does the tree."""
    rows = np.random.default_rng(4).normal(size=(30, 9))
    rule = Tree(5, Krum(f=2), GeometricMedian())
    weights = rule.weights(distances=naive.distances(rows), entropy=FixedKey(1))
    result = rule.aggregate(rows, entropy=FixedKey(1))
    np.testing.assert_allclose(weights @ rows, result.update, atol=1e-9)


def test_no_distance_between_branches_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is for when n^2 d is too much."""
    from mixtailor.kernels.space import Numba

    seen: list[int] = []
    original = Numba.pair_lengths

    def counted(self, block, powers):
        seen.append(len(block.addresses))
        return original(self, block, powers)

    monkeypatch.setattr(Numba, "pair_lengths", counted)
    Tree(5, Krum(f=2), Krum(f=2))(np.random.default_rng(0).normal(size=(45, 9)))
    assert set(seen) == {9, 5}


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Tree(1, Comed(), Comed()), "branches"),
        (lambda: Tree(5, Krum(f=1), Krum(f=2)), "Tree needs one f"),
        (lambda: Tree(2, Comed(), Krum(f=1)), "at least 3 branches"),
        (lambda: Tree(5, Mean(), TrimmedMean(f=3)).min_rows(), "tolerates f = 3 for no n"),
        (lambda: Tree(5, mt.recommended(f=1), Comed()), "outermost"),
    ],
)
def test_wrong_arguments_get_a_sentence(make, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("n", [5, 6, 11, 25])
def test_as_many_proven_faults_as_it_tolerates_leave_a_result(n: int) -> None:
    """A quarantined update may leave fewer updates than there are branches: then it does not tolerate that many."""
    rule = Tree(5, Comed(), Comed())
    rows = np.ones((n, 3))
    rows[: rule.tolerates(n)] = np.nan
    assert np.array_equal(rule(rows), np.ones(3))
    declared = Tree(5, TrimmedMean(f=3), Comed())
    rows = np.ones((declared.min_rows(), 3))
    rows[:3] = np.nan
    assert np.array_equal(declared(rows), np.ones(3))
