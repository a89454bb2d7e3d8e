"""Inner products against exact ones."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.blocks import TYPES, Rows, faulty_rows, make, random, rows, searches

from mixtailor.kernels import products

# A sum of products in float64 is right to this part of the sum of their sizes
ROUNDING = 1e-12


def assert_products_agree(answer: np.ndarray, exact: naive.Wide, sizes: naive.Wide) -> None:
    """Equal up to the rounding of float64 sums, wherever these do not overflow."""
    assert answer.dtype == np.float64 and answer.shape == exact.shape
    inside = sizes < 1e307
    errors = np.abs(naive.wide(answer[inside]) - exact[inside])
    assert (errors <= ROUNDING * sizes[inside] + 1e-290).all()


@searches(80)
@given(st.data(), rows())
def test_gram(data, given_rows):
    """Inner products of rows about a row or the origin, each row scaled first; symmetric, and no square is negative."""
    n = len(given_rows.matrix)
    about = data.draw(st.one_of(st.just(-1), st.integers(0, n - 1)))
    x = naive.wide(given_rows.matrix)
    shifted = x - x[about] if about >= 0 else x
    kind = data.draw(st.sampled_from(["one", "norms", "any"]))
    scales = np.ones(n)
    if kind == "norms":
        lengths = naive.norms(shifted)
        scales = naive.narrow(1 / np.where(lengths > 1e-300, lengths, 1))
    elif kind == "any":
        scales = 2.0 ** random(data.draw).uniform(-9, 9, size=n)
    answer = products.gram(*given_rows.block, about, scales)
    scaled = shifted * scales[:, None]
    held = np.abs(scaled).max(axis=1) < 1e308  # a row that its scale sends beyond float64 has no products to check
    within = np.ix_(held, held)
    if held.any():
        assert_products_agree(answer[within], naive.gram(scaled[held]), naive.gram(np.abs(scaled[held])))
    assert np.array_equal(answer, answer.T, equal_nan=True) and not (np.diag(answer) < 0).any()
    if about >= 0:
        assert (answer[about, held] == 0).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("far", [1e4, 1e8, 1e12, 1e20, 1e38])
def test_gram_about_a_row_keeps_the_others(far, dtype):
    """One row far away takes no digit from the products of the others about one of them."""
    x = (1 + 1e-4 * np.random.default_rng(7).normal(size=(6, 300))).astype(dtype)
    x[5] = far
    case = Rows(x)
    answer = products.gram(*case.block, 2, np.ones(6))[:5, :5]
    exact = naive.gram(x[:5], x[2])
    assert np.abs(naive.wide(answer) - exact).max() <= 1e-12 * np.abs(exact).max()


@pytest.mark.parametrize("dtype", TYPES)
def test_products_for_every_number_of_rows(dtype):
    """Rows are met in blocks: none is forgotten, whatever is left over, and no column either."""
    rng = np.random.default_rng(8)
    for n in [*range(1, 20), 31, 32, 33, 63, 64]:
        case = Rows(make("normal", n, 20 + n, dtype, rng), "padded")
        x, point = naive.wide(case.matrix), rng.normal(size=case.width)
        assert_products_agree(
            products.gram(*case.block, -1, np.ones(n)), naive.gram(x), naive.wide(np.full((n, n), case.width))
        )
        dots = products.point_dots(*case.block, point)
        assert_products_agree(dots, (x * point).sum(axis=1), naive.wide(np.full(n, case.width)))


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_gram_scales_before_it_multiplies(size):
    """Rows of size 1e200 have finite products once each is divided by its own length."""
    x = np.random.default_rng(5).normal(size=(4, 77))
    case = Rows(x * size)
    answer = products.gram(*case.block, -1, np.full(4, 1 / size))
    assert answer == pytest.approx(naive.narrow(naive.gram(x)), rel=1e-11)


@searches(30)
@given(st.data(), faulty_rows())
def test_faulty_rows_show_in_gram(data, case):
    given_rows, faulty = case
    sound = [i for i in range(len(given_rows.matrix)) if i not in faulty]
    about = data.draw(st.sampled_from([-1, *sound]))
    answer = products.gram(*given_rows.block, about, np.full(len(given_rows.matrix), 0.5))
    assert not np.isfinite(answer[faulty]).any() and not np.isfinite(answer[:, faulty]).any()
    assert np.isfinite(answer[np.ix_(sound, sound)]).all()
    assert not np.isfinite(products.gram(*given_rows.block, faulty[0], np.ones(len(given_rows.matrix)))).any()


@searches(60)
@given(st.data(), rows())
def test_point_dots(data, given_rows):
    """Inner products with a float64 vector."""
    rng = random(data.draw)
    point = rng.normal(size=given_rows.width) * 10.0 ** rng.uniform(-20, 20)
    answer = products.point_dots(*given_rows.block, point)
    terms = naive.wide(given_rows.matrix) * naive.wide(point)
    assert_products_agree(answer, terms.sum(axis=1), np.abs(terms).sum(axis=1))


@searches(20)
@given(faulty_rows())
def test_faulty_rows_show_in_dots(case):
    given_rows, faulty = case
    answer = products.point_dots(*given_rows.block, np.full(given_rows.width, 0.5))
    sound = ~np.isin(np.arange(len(answer)), faulty)
    assert (np.isfinite(answer) == sound).all()
