"""l_p distances of float32 rows, in float32 arithmetic, against exact ones."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.blocks import KINDS, Rows, faulty_rows, make, random, rows, searches

from mixtailor.kernels import norms

NORMS = [1.0, 1.25, 2.0, 3.0, 7.0, 15.0, 16.0]
WHOLE = [float(p) for p in range(1, 17)]
some_norms = st.lists(st.sampled_from(NORMS), min_size=1, max_size=3, unique=True) | st.permutations(WHOLE).map(
    lambda order: [*order[:4], 16.0]
)


def exact(matrix: np.ndarray, p: float) -> naive.Wide:
    """The l_p distance of each pair."""
    x = naive.wide(matrix)
    return np.array([naive.norms(x - row, p) for row in x], np.longdouble).reshape(len(x), len(x))


def agree(found: np.ndarray, matrix: np.ndarray, p: float, tolerance: float = 2e-6) -> None:
    """Five times nearer than the 1e-5 that is promised: equal rows at 0, all others not, whatever their size."""
    expected = exact(matrix, p)
    assert (found == found.T).all() and (np.diag(found) == 0).all()
    assert ((found == 0) == (expected == 0)).all()
    apart = expected > 0
    errors = np.abs(naive.wide(found[apart]) / expected[apart] - 1)
    assert errors.max(initial=0) <= tolerance, f"off by {errors.max()} at p = {p}"


@searches(60)
@given(rows(dtypes=[np.float32]), some_norms)
def test_pair_norms(given_rows, powers):
    found = norms.pair_norms(*given_rows.block, np.array(powers))
    for p, answer in zip(powers, found, strict=True):
        agree(answer, given_rows.matrix, p)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_matrix(kind):
    """More than one tile of each, in a single norm and in sixteen at once."""
    case = Rows(make(kind, 9, 2500, np.float32, np.random.default_rng(11)), "padded")
    for powers in ([15.0], WHOLE):
        for p, answer in zip(powers, norms.pair_norms(*case.block, np.array(powers)), strict=True):
            agree(answer, case.matrix, p)


@pytest.mark.parametrize("p", [1.0, 3.0, 16.0])
def test_sizes_that_change_along_the_row(p):
    """Layers of different sizes, the largest first, last and in between; rows that differ in the smallest alone."""
    rng = np.random.default_rng(5)
    for sizes in ([1e30, 1.0, 1e-30], [1e-30, 1e30, 1e-4], [1e-42, 1e-20, 1e-42], [1.0, 1e-3, 30.0]):
        x = np.concatenate([size * rng.normal(size=(6, 1024)) for size in sizes], axis=1).astype(np.float32)
        x[1] = x[0]
        x[1, int(np.argmin(sizes)) * 1024 + 17] += np.float32(3 * min(sizes))
        x[3] = x[2]
        case = Rows(x)
        agree(norms.pair_norms(*case.block, np.array([p]))[0], x, p)


@pytest.mark.parametrize("p", [1.0, 3.0, 16.0])
def test_far_rows_have_all_digits(p):
    """Sums of distances, of which one is to a far row, must still tell by how much the others differ."""
    rng = np.random.default_rng(6)
    for far in (1e3, 1e8, 1e30):
        for width in (23, 2500):
            x = make("normal", 9, width, np.float32, rng)
            x[4] = far * np.where(rng.uniform(size=width) < 0.5, -1, 1)
            case = Rows(x)
            found = norms.pair_norms(*case.block, np.array([p]))[0]
            agree(found, x, p)
            others = np.arange(9) != 4
            assert np.abs(naive.wide(found[4, others]) / exact(x, p)[4, others] - 1).max() <= 1e-14


def test_every_number_of_rows():
    rng = np.random.default_rng(8)
    for n in [*range(1, 20), 33, 64]:
        case = Rows(make("normal", n, 1030 + n, np.float32, rng), "apart")
        agree(norms.pair_norms(*case.block, np.array([3.0]))[0], case.matrix, 3.0)


@searches(30)
@given(faulty_rows(), some_norms)
def test_faulty_rows_show(case, powers):
    """A NaN or an infinity anywhere in a row shows in all of its distances and on its diagonal, and in no other's."""
    given_rows, faulty = case
    single = Rows(given_rows.matrix.astype(np.float32), given_rows.layout)
    sound = [i for i in range(len(single.matrix)) if i not in faulty]
    for p, answer in zip(powers, norms.pair_norms(*single.block, np.array(powers)), strict=True):
        assert not np.isfinite(answer[faulty]).any() and not np.isfinite(answer[:, faulty]).any()
        agree(answer[np.ix_(sound, sound)], single.matrix[sound], p)


@searches(40)
@given(st.data(), rows(dtypes=[np.float32]), st.sampled_from([1.0, 3.0, 3.3, 16.0]))
def test_combination_norms(data, given_rows, p):
    """Right up to the rounding of the combination in float64, whatever the size; 0 only where row and point agree."""
    rng = random(data.draw)
    n = len(given_rows.matrix)
    weights = rng.dirichlet(np.ones(n)) * (rng.uniform(size=n) < data.draw(st.sampled_from([0.5, 1.0])))
    if data.draw(st.booleans()):
        weights = np.eye(n)[rng.integers(n)]
    found = norms.combination_norms(*given_rows.block, weights, p)
    x, wide = naive.wide(given_rows.matrix), naive.wide(weights)
    expected = naive.norms(x - (wide[:, None] * x).sum(axis=0), p)
    rounding = naive.norms((np.abs(wide)[:, None] * np.abs(x)).sum(axis=0) * (n * 2.0**-52), p)
    assert (np.abs(naive.wide(found) - expected) <= 1e-11 * expected + rounding).all()
    if weights.max() == 1:
        assert found[weights.argmax()] == 0


@searches(30)
@given(st.data(), rows(dtypes=[np.float32]), st.sampled_from([1.0, 2.0, 3.3, 16.0]))
def test_point_norms(data, given_rows, p):
    """To a point from outside, or to a row itself, whatever the size: only differences are rounded."""
    rng = random(data.draw)
    x = given_rows.matrix
    row = int(rng.integers(len(x)))
    point = x[row].astype(np.float64)
    if data.draw(st.booleans()):
        point = point + np.abs(x).max(initial=0.0) * rng.normal(size=x.shape[1])
    found = norms.point_norms(*given_rows.block, point, p)
    expected = naive.norms(naive.wide(x) - naive.wide(point), p)
    assert (np.abs(naive.wide(found) - expected) <= 1e-11 * expected).all()
    assert ((found == 0) == (expected == 0)).all()


@searches(20)
@given(faulty_rows(), st.sampled_from([1.0, 3.0]))
def test_faulty_rows_show_in_combination_norms(case, p):
    """A faulty row of weight zero is itself not finite and spoils nobody else; with a weight it spoils all."""
    given_rows, faulty = case
    single = Rows(given_rows.matrix.astype(np.float32), given_rows.layout)
    sound = ~np.isin(np.arange(len(single.matrix)), faulty)
    weights = np.where(sound, 1 / max(1, sound.sum()), 0.0)
    assert (np.isfinite(norms.combination_norms(*single.block, weights, p)) == sound).all()
    weights[faulty[0]] = 0.25
    assert not np.isfinite(norms.combination_norms(*single.block, weights, p)).any()


def test_lengths_of_parts():
    """Parts of any size make a whole, and what is not finite stays so."""
    parts = np.array([[[0.0, 3e200]], [[0.0, 4e200]], [[0.0, 1e-300]]])
    found = norms.added(parts, np.array([2.0]))
    assert found[0, 0] == 0.0 and found[0, 1] == pytest.approx(5e200, rel=1e-15)
    for bad in (math.nan, math.inf):
        parts[1, 0] = bad
        assert not np.isfinite(norms.added(parts, np.array([2.0]))).any()


def test_infinite_norms_of_parts_are_maxima():
    parts = np.array([[[3.0, 4.0], [1.0, 4.0]], [[4.0, 3.0], [2.0, 1.0]]])
    found = norms.added(parts, np.array([2.0, np.inf]))
    np.testing.assert_array_equal(found, [[5.0, 5.0], [2.0, 4.0]])


@pytest.mark.parametrize("p", [1.0, 2.0, 3.3, 16.0])
@pytest.mark.parametrize("size", [1e-140, 1e-30, 1.0, 1e30, 1e140])
def test_float64_rows(size, p):
    """To a point and to a combination, with one row that is far away, and one that is the point."""
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(7, 3001)) * size
    matrix[5] *= 1e12 if size < 1e100 else 1.0
    case, point, weights = Rows(matrix), matrix[2].copy(), rng.dirichlet(np.ones(7))
    expected = naive.norms(naive.wide(matrix) - naive.wide(point), p)
    np.testing.assert_allclose(norms.point_norms(*case.block, point, p), naive.narrow(expected), rtol=1e-12)
    middle = (naive.wide(weights)[:, None] * naive.wide(matrix)).sum(axis=0)
    found = norms.combination_norms(*case.block, weights, p)
    np.testing.assert_allclose(found, naive.narrow(naive.norms(naive.wide(matrix) - middle, p)), rtol=1e-11)
    assert norms.combination_norms(*case.block, np.eye(7)[3], p)[3] == 0.0


def test_float64_rows_beyond_the_range_have_no_length_that_is_not_finite():
    case = Rows(np.array([[0.0] * 9, [2.0**-1074] * 9, [2.0**-1030] * 9]))
    for p in (1.0, 2.0, 16.0):
        assert np.isfinite(norms.point_norms(*case.block, np.zeros(9), p)).all()
