"""Weighted sums, copies and finiteness against numpy's."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.blocks import TYPES, Rows, faulty_rows, guarded, make, random, rows, searches

from mixtailor.kernels import combinations


def combined(given_rows: Rows, weights: np.ndarray, dtype: type) -> tuple[np.ndarray, bool]:
    """What `combine` writes and returns; its flag must tell the truth about what it wrote."""
    out, untouched = guarded((len(weights), given_rows.width), dtype)
    finite = combinations.combine(*given_rows.block, weights, out)
    assert untouched()
    assert bool(finite) == bool(np.isfinite(out).all())
    return out, bool(finite)


def assert_is_combination(out: np.ndarray, given_rows: Rows, weights: np.ndarray) -> None:
    """Right to one rounding of the result's dtype and float64 sums; too large for the dtype is not finite."""
    info = np.finfo(out.dtype)
    x = naive.wide(given_rows.matrix)
    for answer, row in zip(out, naive.wide(weights), strict=True):
        terms = row[:, None] * np.where(row[:, None] != 0, x, 0)
        exact = terms.sum(axis=0)
        slack = np.abs(terms).sum(axis=0) * (len(x) * 2.0**-52) + float(info.eps) * np.abs(exact)
        slack += float(info.smallest_subnormal) + len(x) * 2.0**-1074  # each product of denormals is rounded as well
        # A result within rounding of the largest number may be that number or infinite; partial sums may overflow too
        inside = np.abs(terms).sum(axis=0) < float(info.max) * 0.999
        assert (np.abs(naive.wide(answer[inside]) - exact[inside]) <= slack[inside]).all()
        if out.dtype == np.float32:
            assert not np.isfinite(answer[np.abs(exact) - slack > float(info.max)]).any()


@searches(80)
@given(st.data(), rows(), st.sampled_from(TYPES))
def test_combine(data, given_rows, dtype):
    """Several weighted sums in one reading, into either dtype, whatever the sizes."""
    rng = random(data.draw)
    n, m = len(given_rows.matrix), data.draw(st.integers(1, 5))
    weights = rng.normal(size=(m, n)) * (rng.uniform(size=(m, n)) < data.draw(st.sampled_from([0.2, 1.0])))
    if data.draw(st.booleans()):
        weights[0] = 1 / n
    out, _ = combined(given_rows, weights, dtype)
    assert_is_combination(out, given_rows, weights)


@searches(30)
@given(st.data(), rows())
def test_combine_gives_back_a_single_row(data, given_rows):
    """A weight of one on one row gives its very values, n rows at once too."""
    n = len(given_rows.matrix)
    order = np.asarray(data.draw(st.permutations(range(n))))
    out, finite = combined(given_rows, np.eye(n)[order], given_rows.matrix.dtype.type)
    assert finite and (out == given_rows.matrix[order]).all()


@searches(40)
@given(faulty_rows(), st.sampled_from(TYPES))
def test_combine_skips_zero_weights(case, dtype):
    """0 times infinity takes no part; any other weight on a faulty row shows, in the flag too."""
    given_rows, faulty = case
    n = len(given_rows.matrix)
    weights = np.where(np.isin(np.arange(n), faulty), 0.0, 0.5)[None, :]
    out, finite = combined(given_rows, weights, dtype)
    assert finite
    assert_is_combination(out, given_rows, weights)
    weights = np.vstack([weights, weights])
    weights[1, faulty[0]] = -1e-3
    out, finite = combined(given_rows, weights, dtype)
    assert not finite and np.isfinite(out[0]).all() and not np.isfinite(out[1]).all()


def test_combine_accumulates_in_float64():
    """1e8 + 1 - 1e8 is 1: float32 would say 0."""
    case = Rows(np.array([[1e8] * 20, [1.0] * 20, [1e8] * 20], np.float32))
    out, _ = combined(case, np.array([[1.0, 1.0, -1.0]]), np.float32)
    assert (out == 1).all()


def test_combine_reports_what_overflows_on_the_way_out():
    """Twice the largest float32 fits float64 and not float32."""
    case = Rows(np.full((1, 9), np.finfo(np.float32).max))
    assert combined(case, np.array([[2.0]]), np.float64)[1]
    assert not combined(case, np.array([[2.0]]), np.float32)[1]


@searches(40)
@given(rows(max_d=5000), st.sampled_from(TYPES))
def test_gather(given_rows, dtype):
    """Copies are bit for bit, -0.0 included; another dtype gets what numpy's conversion gives."""
    out, untouched = guarded(given_rows.matrix.shape, dtype)
    combinations.gather(*given_rows.block, out)
    with np.errstate(over="ignore"):
        expected = given_rows.matrix.astype(dtype)
    assert untouched() and out.tobytes() == expected.tobytes()


@searches(40)
@given(faulty_rows())
def test_gather_and_finite_rows_of_faulty_rows(case):
    given_rows, faulty = case
    out, untouched = guarded(given_rows.matrix.shape, given_rows.matrix.dtype)
    combinations.gather(*given_rows.block, out)
    assert untouched() and np.array_equal(out, given_rows.matrix, equal_nan=True)
    finite = combinations.finite_rows(*given_rows.block)
    assert finite.dtype == np.bool_
    assert np.flatnonzero(~finite).tolist() == faulty


@searches(30)
@given(rows())
def test_finite_rows_of_sound_rows(given_rows):
    """However large or small, a number is finite."""
    assert combinations.finite_rows(*given_rows.block).tolist() == [True] * len(given_rows.matrix)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_fault_is_found_wherever_it_is(dtype):
    """Every position of a run that is no multiple of anything."""
    x = make("normal", 1, 1037, dtype, np.random.default_rng(2))
    case = Rows(x, "apart")
    run = case.memory[-1]
    for position in range(x.size):
        run[position] = np.inf
        assert not combinations.finite_rows(*case.block)[0]
        run[position] = 0
    assert combinations.finite_rows(*case.block)[0]
