"""Sums of powers of differences against exact ones."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.blocks import (
    FEW_NORMS,
    KINDS,
    NORMS,
    TYPES,
    Rows,
    assert_sums_agree,
    faulty_rows,
    make,
    random,
    rows,
    searches,
)

from mixtailor.kernels import distances
from mixtailor.kernels.blocks import MAXIMUM
from mixtailor.kernels.norms import point_norms
from mixtailor.kernels.space import NUMBA, Block

a_few_norms = st.lists(st.sampled_from(NORMS), min_size=1, max_size=3, unique=True)
# Whole norms may be had together, each power from the one before: lists of them up to 16, in any order
many_norms = st.permutations(range(1, 16)).map(lambda order: [float(p) for p in (*order[:5], 16)])
fewer_norms = st.lists(st.sampled_from(FEW_NORMS), min_size=1, max_size=3, unique=True)
some_norms = a_few_norms | many_norms


def between(matrix: np.ndarray, p: float) -> naive.Wide:
    """The exact sum of |x_i - x_j|^p for each pair."""
    x = naive.wide(matrix)
    sums = naive.wide(np.zeros((len(x), len(x))))
    for i in range(len(x)):
        sums[i, i:] = sums[i:, i] = naive.power_sums(x[i:] - x[i], p)
    return sums


@searches(80)
@given(rows(), some_norms)
def test_pair_sums(given_rows, norms):
    """All pairs, any norms in one reading: right to 1e-5 (float32) or 1e-12 (float64), symmetric, 0 on the diagonal."""
    sums = distances.pair_sums(*given_rows.block, np.array(norms))
    assert sums.shape == (len(norms), len(given_rows.matrix), len(given_rows.matrix))
    for p, answer in zip(norms, sums, strict=True):
        assert_sums_agree(answer, between(given_rows.matrix, p), p, given_rows.tolerance)
        assert (answer == answer.T).all() and (np.diag(answer) == 0).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_pair_sums_of_all_norms_at_once(kind, dtype):
    """The eighteen norms do not disturb one another, for every kind of matrix."""
    case = Rows(make(kind, 9, 531, dtype, np.random.default_rng(11)), "padded")
    sums = distances.pair_sums(*case.block, np.array(NORMS))
    for p, answer in zip(NORMS, sums, strict=True):
        assert_sums_agree(answer, between(case.matrix, p), p, case.tolerance)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("norms", [[2.0], [3.0, math.inf], [1.0, 2.0, 5.0, 16.0]], ids=str)
def test_sums_for_every_number_of_rows(norms, dtype):
    """Rows are met in blocks: none is forgotten, whatever is left over, and no column either."""
    rng = np.random.default_rng(8)
    for n in [*range(1, 20), 31, 32, 33, 63, 64]:
        case = Rows(make("normal", n, 20 + n, dtype, rng), "padded")
        sums = distances.pair_sums(*case.block, np.array(norms))
        for p, answer in zip(norms, sums, strict=True):
            assert_sums_agree(answer, between(case.matrix, p), p, case.tolerance)
            lengths = point_norms(*case.block, np.zeros(case.width), p)
            np.testing.assert_allclose(lengths, naive.narrow(naive.norms(case.matrix, p)), rtol=1e-12)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("p", [1.25, 3.3, 70.0])
def test_pair_sums_of_unusual_norms(p, dtype):
    """Any p from 1 on is a norm: quarters, other fractions and large ones."""
    for kind in ("normal", "near", "mixed", "ties", "zeros"):
        case = Rows(make(kind, 5, 77, dtype, np.random.default_rng(3)), "apart")
        (sums,) = distances.pair_sums(*case.block, np.array([p]))
        assert_sums_agree(sums, between(case.matrix, p), p, case.tolerance)


def test_pair_sums_of_near_duplicates():
    """Rows of ones that differ by 1e-4 in one coordinate of a thousand: a float32 Gram matrix would see nothing."""
    x = np.ones((3, 1000), np.float32)
    x[1, 7] += np.float32(1e-4)
    x[2, 999] -= np.float32(1e-4)
    case = Rows(x)
    sums = distances.pair_sums(*case.block, np.array(NORMS))
    for p, answer in zip(NORMS, sums, strict=True):
        assert_sums_agree(answer, between(x, p), p, 1e-6)
        assert answer[0, 1] > 0 and answer[0, 2] > 0


def test_pair_sums_beyond_the_range_of_float32():
    """Squares of differences above 1.8e19 and below 1e-23 leave the range of float32, not that of the result."""
    x = np.array([[0.0] * 40, [3e19] * 40, [3e-30] * 40, [3e38] * 40], np.float32)
    case = Rows(x)
    sums = distances.pair_sums(*case.block, np.array([2.0, 1.0, 3.0]))
    assert np.isfinite(sums).all() and (sums[:, 0, 1:] > 0).all()
    for p, answer in zip([2.0, 1.0, 3.0], sums, strict=True):
        assert_sums_agree(answer, between(x, p), p, 1e-5)


@searches(40)
@given(faulty_rows(), some_norms)
def test_faulty_rows_show_in_pair_sums(case, norms):
    """A NaN or an infinity anywhere in a row makes all its sums non-finite, and no other's, whatever the norm."""
    given_rows, faulty = case
    sums = distances.pair_sums(*given_rows.block, np.array(norms))
    sound = [i for i in range(len(given_rows.matrix)) if i not in faulty]
    for p, answer in zip(norms, sums, strict=True):
        assert not np.isfinite(answer[faulty]).any() and not np.isfinite(answer[:, faulty]).any()
        within = np.ix_(sound, sound)
        assert_sums_agree(answer[within], between(given_rows.matrix[sound], p), p, given_rows.tolerance)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.3, 16.0])
@pytest.mark.parametrize("size", [1e-130, 1e-30, 1.0, 1e30, 1e130])
def test_lengths_of_pairs_whose_sums_leave_the_range(size, p):
    """Powers overflow or vanish, lengths do not; equal rows stay equal, and a faulty row spoils no other pair."""
    x = np.random.default_rng(3).normal(size=(6, 2100)) * size
    x[4], x[5, 7] = x[1], math.nan
    (found,) = NUMBA.pair_lengths(Block.of(x), np.array([p]))
    exact = naive.narrow(np.array([naive.norms(naive.wide(x[:5]) - naive.wide(row), p) for row in x[:5]]))
    np.testing.assert_allclose(found[:5, :5], exact, rtol=1e-12)
    assert found[1, 4] == 0.0 and not np.isfinite(found[5]).any()


@st.composite
def points(draw: st.DrawFn, given_rows: Rows) -> np.ndarray:
    """A vector to measure from: a row, a row nudged in its last digits, the mean, zero, or any of the same size."""
    rng = random(draw)
    x = given_rows.matrix.astype(np.float64)
    kind = draw(st.sampled_from(["row", "nudged", "mean", "zero", "other"]))
    row = x[rng.integers(len(x))]
    if kind == "row":
        return row.copy()
    if kind == "nudged":
        return row * (1 + 1e-9 * rng.normal(size=row.size))
    if kind == "mean":
        return naive.mean(x)
    if kind == "zero":
        return np.zeros(row.size)
    return rng.permutation(row) * rng.uniform(-1, 1, size=row.size)


@searches(60)
@given(st.data(), rows())
def test_point_maxima(data, given_rows):
    """The point is float64 and counts as such: a row nudged by 1e-9 is not at distance 0."""
    point = data.draw(points(given_rows))
    found = distances.sums_with_point(*given_rows.block, point, MAXIMUM)
    exact = naive.power_sums(naive.wide(given_rows.matrix) - naive.wide(point), math.inf)
    assert_sums_agree(found, exact, math.inf, given_rows.tolerance)


@searches(30)
@given(faulty_rows())
def test_faulty_rows_show_in_point_maxima(case):
    given_rows, faulty = case
    sound = ~np.isin(np.arange(len(given_rows.matrix)), faulty)
    found = distances.sums_with_point(*given_rows.block, np.full(given_rows.width, 0.5), MAXIMUM)
    assert (np.isfinite(found) == sound).all()
