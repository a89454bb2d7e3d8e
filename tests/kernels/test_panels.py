"""Sums over pairs of many rows, by panels: right in float64, and to the stated share in float32."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixtailor.kernels.panels import (
    PANEL,
    PairSums,
    listed_sums,
    panels_of,
    product_error,
    range_sums,
    relative_error,
)
from mixtailor.kernels.space import Block


def _exact(rows: np.ndarray, p: float) -> np.ndarray:
    wide = rows.astype(np.longdouble)
    return np.array([(np.abs(wide - row) ** p).sum(axis=1) for row in wide])


def _upper(matrix: np.ndarray) -> np.ndarray:
    return np.asarray(matrix[np.triu_indices(len(matrix), 1)], np.float64)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, 1.25])
@pytest.mark.parametrize(("n", "d"), [(5, 1), (13, 17), (30, 1100)])
def test_sums_of_all_pairs(n: int, d: int, p: float) -> None:
    rows = np.random.default_rng(n).standard_t(3, size=(n, d)).astype(np.float32) * np.float32(1e-4)
    block, exact = Block.of(rows), _upper(_exact(rows, p))
    place = block.addresses, block.like, block.width
    double, single = range_sums(*place, p, True), range_sums(*place, p, False)
    assert np.allclose(_upper(double[:-1].reshape(n, n)), exact, rtol=1e-13)
    assert np.allclose(_upper(single[:-1].reshape(n, n)), exact, rtol=relative_error(p), atol=single[-1])
    first, second = (index.astype(np.intp) for index in np.triu_indices(n, 1))
    assert np.allclose(listed_sums(*place, first, second, p), exact, rtol=1e-13)


def test_several_panels_and_ranges_make_one_matrix() -> None:
    """More rows than one panel holds, coordinates in three ranges of which none is a whole number of registers."""
    n, d = PANEL + 30, 41
    rows = np.random.default_rng(3).normal(size=(n, d)).astype(np.float32)
    assert len(panels_of(n)) == 2
    block, sums = Block.of(rows), PairSums(n, 2.0, double=True)
    for low, high in ((0, 11), (11, 12), (12, d)):
        sums.add(block.addresses + 4 * low, block.like, high - low)
    assert np.allclose(_upper(sums.total), _upper(_exact(rows, 2.0)), rtol=1e-13)


def _rows(rng: np.random.Generator, kind: str, n: int, exponent: int) -> np.ndarray:
    """Rows of 70 numbers of some kind, times a power of two."""
    rows = rng.normal(size=(n, 70))
    if kind == "offset":
        rows = rng.normal(size=70) * 1e6 + rng.integers(-3, 4, size=(n, 70)) * 0.0625
    elif kind == "rows":
        rows *= 10.0 ** rng.integers(-12, 12, size=(n, 1))
    elif kind == "columns":
        rows *= 10.0 ** rng.integers(-12, 12, size=70)
    elif kind == "alternating":  # every rounding of a sum goes the same way
        rows = np.where(np.arange(n)[:, None] % 2, 1.0, 0.0) * (1.0 + 2.0**-12) * np.ones(70)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(rows, exponent), np.float32)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(-140, 120),
    st.sampled_from(["normal", "offset", "rows", "columns", "alternating"]),
    st.sampled_from([1.0, 2.0, 3.0]),
)
def test_the_bound_holds_wherever_the_sum_is_sound(seed: int, exponent: int, kind: str, p: float) -> None:
    """Rows of any size, near-duplicates about a far offset, rows and columns of very different sizes."""
    rows = _rows(np.random.default_rng(seed), kind, 7, exponent)
    if not np.isfinite(rows).all():
        return
    block, exact = Block.of(rows), _upper(_exact(rows, p))
    found = range_sums(block.addresses, block.like, block.width, p, False)
    sums, floor = _upper(found[:-1].reshape(7, 7)), found[-1]
    sound = (sums > floor) & (sums < np.inf)
    assert (np.abs(sums - exact) <= relative_error(p) * exact)[sound].all()
    assert (exact[~sound & (sums < np.inf)] <= 1.1 * floor + np.abs(sums[~sound & (sums < np.inf)])).all()


def test_a_row_that_is_not_finite_has_no_finite_sums() -> None:
    rows = np.ones((30, 40), np.float32) * np.arange(30, dtype=np.float32)[:, None]
    rows[3, 7], rows[8, 39] = np.nan, np.inf
    block = Block.of(rows)
    for double in (True, False):
        sums = range_sums(block.addresses, block.like, block.width, 2.0, double)[:-1].reshape(30, 30)
        both = np.triu(sums, 1) + np.triu(sums, 1).T
        others = np.delete(np.arange(30), [3, 8])
        assert not np.isfinite(both[3, others]).any() and not np.isfinite(both[8, others]).any()
        assert np.isfinite(both[np.ix_(others, others)]).all()


def _squares_about(rows: np.ndarray, centre: int, double: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """Squared distances from the kernel's products, the lengths from the centre, and the floor."""
    n, block = len(rows), Block.of(rows)
    found = range_sums(block.addresses, block.like, block.width, 2.0, double, centre)
    products, own = found[:-1].reshape(n, n), np.diag(found[:-1].reshape(n, n))
    with np.errstate(invalid="ignore", over="ignore"):
        return own[:, None] + own - 2.0 * products, np.sqrt(own), float(found[-1])


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(-140, 120), st.sampled_from(["normal", "offset", "rows"]), st.booleans())
def test_products_give_squares_within_their_bound(seed: int, exponent: int, kind: str, double: bool) -> None:
    """Rows of any size, and near-duplicates about a far offset, whichever row is the centre."""
    rng = np.random.default_rng(seed)
    rows = _rows(rng, kind, 13, exponent)
    if not np.isfinite(rows).all():
        return
    centre = int(rng.integers(13))
    squares, reach, floor = _squares_about(rows, centre, double)
    exact = np.asarray(_exact(rows, 2.0), np.float64)
    away = np.sqrt(exact[centre])
    bound = product_error(double) * (away[:, None] + away) ** 2 + 8.0 * floor
    sound = np.isfinite(squares) & (np.arange(13)[:, None] < np.arange(13))
    assert (np.abs(squares - exact) <= bound)[sound].all()
    assert np.isfinite(squares).all() or exponent > 40 or kind == "rows"
    known = np.isfinite(reach)
    assert np.allclose(reach[known], away[known], rtol=1e-5, atol=np.sqrt(8.0 * floor))


def test_equal_rows_have_a_square_of_exactly_zero() -> None:
    """Whichever panel or block they fall into: their products are the same sums."""
    rows = np.random.default_rng(5).normal(size=(40, 300)).astype(np.float32)
    rows[[3, 17, 39]] = rows[11]
    squares, _, _ = _squares_about(rows, 20, False)
    equal = [3, 11, 17, 39]
    assert all(squares[i, j] == 0.0 for i in equal for j in equal if i < j)
