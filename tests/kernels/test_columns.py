"""Columnwise statistics against exact ones."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.blocks import TYPES, Rows, faulty_rows, guarded, random, rows, searches

from mixtailor.kernels import columns


def run(statistic, given_rows: Rows, *parameters: int) -> tuple[np.ndarray, bool]:
    """The kernel's result in the rows' dtype, and whether it says that all is finite."""
    out, untouched = guarded((given_rows.width,), given_rows.matrix.dtype)
    finite = statistic(*given_rows.block, *parameters, out)
    assert untouched()
    return out, bool(finite)


def allowance(given_rows: Rows, sizes: naive.Wide) -> naive.Wide:
    """Rounding to the rows' dtype once, and sums of 64 values in float64."""
    info = np.finfo(given_rows.matrix.dtype)
    return naive.wide(64 * 2.0**-52 * sizes + float(info.smallest_subnormal))


def assert_columns_agree(answer: np.ndarray, exact: naive.Wide, given_rows: Rows, sizes: naive.Wide) -> None:
    """Equal up to one rounding to the dtype and the rounding of float64 sums of values of the given size."""
    eps = float(np.finfo(given_rows.matrix.dtype).eps)
    errors = np.abs(naive.wide(answer) - exact)
    assert (errors <= eps * np.abs(exact) + allowance(given_rows, sizes)).all()


@searches(60)
@given(rows())
def test_median(given_rows):
    """The middle value itself, or the mean of the two in the middle, which does not overflow."""
    answer, finite = run(columns.median, given_rows)
    ordered = np.sort(naive.wide(given_rows.matrix), axis=0)
    n = len(ordered)
    low, high = ordered[(n - 1) // 2], ordered[n // 2]
    assert finite and np.isfinite(answer).all()
    if n % 2:
        assert (answer == low).all()
    assert ((low <= answer) & (answer <= high)).all()
    assert_columns_agree(answer, (low + high) / 2, given_rows, np.maximum(np.abs(low), np.abs(high)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [*range(1, 20), 31, 32, 33, 63, 64])
def test_median_for_many_n(n, dtype):
    """Every size of sorting network there may be, with many ties: 0 and 1 in all mixtures find a wrong comparison."""
    rng = np.random.default_rng(n)
    bits = rng.integers(0, 2, size=(n, 600)) if n > 9 else (np.arange(2**n) >> np.arange(n)[:, None]) & 1
    case = Rows(bits.astype(dtype))
    answer, _ = run(columns.median, case)
    assert (answer == naive.comed(case.matrix)).all()
    case = Rows(rng.permuted(np.tile(np.arange(n)[:, None], 50), axis=0).astype(dtype))
    for trim in range((n + 1) // 2):
        assert (run(columns.trimmed_mean, case, trim)[0] == (n - 1) / 2).all()


def test_median_of_the_largest_numbers():
    """(max + max) / 2 is max."""
    for dtype in TYPES:
        largest = np.finfo(dtype).max
        case = Rows(np.array([[largest, -largest], [largest, -largest]], dtype))
        assert run(columns.median, case)[0].tolist() == [largest, -largest]


@searches(60)
@given(st.data(), rows())
def test_trimmed_mean(data, given_rows):
    """The mean of what is left, with the rounding of what is left alone."""
    n = len(given_rows.matrix)
    trim = data.draw(st.integers(0, (n - 1) // 2))
    answer, finite = run(columns.trimmed_mean, given_rows, trim)
    left = np.sort(naive.wide(given_rows.matrix), axis=0)[trim : n - trim]
    assert finite and np.isfinite(answer).all()
    assert_columns_agree(answer, left.mean(axis=0), given_rows, np.abs(left).mean(axis=0))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("far", [1e12, -1e12, 1e38])
def test_trimmed_mean_survives_one_far_entry(far, dtype):
    """A sum over all that subtracts the extremes would lose the honest part."""
    x = np.random.default_rng(1).normal(size=(11, 200)).astype(dtype)
    x[3] = far
    answer, _ = run(columns.trimmed_mean, Rows(x), 1)
    left = np.sort(naive.wide(x), axis=0)[1:-1]
    assert np.abs(left).max() < 10
    assert np.abs(naive.wide(answer) - left.mean(axis=0)).max() <= 4 * np.finfo(dtype).eps


def nearest_means(matrix: np.ndarray, trim: int, keep: int) -> tuple[naive.Wide, np.ndarray, naive.Wide]:
    """For each run of `keep` sorted values its mean, whether it may count as nearest to the centre, and sizes.

    The centre is rounded in float64, so that runs which miss by that rounding count as nearest as well.
    """
    ordered = np.sort(naive.wide(matrix), axis=0)
    n = len(ordered)
    trim = (n - 1) // 2 if trim < 0 else trim
    centre = ordered[trim : n - trim].mean(axis=0)
    slack = 1e-13 * np.abs(ordered[trim : n - trim]).max(axis=0) + 2.0**-1074
    means, possible, sizes = [], [], []
    for low in range(n - keep + 1):
        window = ordered[low : low + keep]
        farthest = np.maximum(centre - window[0], window[-1] - centre)
        below = centre - ordered[low - 1] if low else np.inf
        above = ordered[low + keep] - centre if low + keep < n else np.inf
        means.append(window.mean(axis=0))
        sizes.append(np.abs(window).mean(axis=0))
        possible.append(farthest <= np.minimum(below, above) + slack)
    return naive.wide(means), np.array(possible), naive.wide(sizes)


@searches(80)
@given(st.data(), rows(max_d=1500))
def test_around(data, given_rows):
    """The mean of the nearest values to the median or to the trimmed mean."""
    n = len(given_rows.matrix)
    trim = data.draw(st.one_of(st.just(-1), st.integers(0, (n - 1) // 2)))
    keep = data.draw(st.integers(1, n))
    answer, finite = run(columns.around, given_rows, trim, keep)
    means, possible, sizes = nearest_means(given_rows.matrix, trim, keep)
    assert finite and possible.any(axis=0).all()
    eps = float(np.finfo(given_rows.matrix.dtype).eps)
    agrees = np.abs(naive.wide(answer) - means) <= eps * np.abs(means) + allowance(given_rows, sizes)
    assert (agrees & possible).any(axis=0).all()


@searches(40)
@given(st.data(), st.integers(1, 24), st.sampled_from(TYPES))
def test_around_gives_ties_to_the_lower_window(data, n, dtype):
    """Small integers and an exact centre: of values equally near, the lower ones stay."""
    rng = random(data.draw)
    case = Rows(rng.integers(-4, 5, size=(n, 150)).astype(dtype), "apart")
    keep = data.draw(st.integers(1, n))
    powers_of_two = [trim for trim in range((n + 1) // 2) if n - 2 * trim in (1, 2, 4, 8, 16)]
    trim = data.draw(st.sampled_from([-1, *powers_of_two]))
    answer, _ = run(columns.around, case, trim, keep)
    exact = naive.around(
        case.matrix, keep, naive.comed(case.matrix) if trim < 0 else naive.trimmed_mean(case.matrix, trim)
    )
    assert np.abs(answer - exact).max() <= 8 * np.finfo(dtype).eps


def test_around_by_hand():
    """1, 2, 4, 6, 7 around 4: of 2 and 6 the lower; around the mean of 0, 1, 2, 9, which is 3: 2, then 1."""
    case = Rows(np.array([[7.0], [2.0], [4.0], [6.0], [1.0]], np.float32))
    assert run(columns.around, case, -1, 2)[0] == 3
    assert run(columns.around, case, -1, 3)[0] == 4
    case = Rows(np.array([[9.0], [0.0], [2.0], [1.0]]))
    assert run(columns.around, case, 0, 2)[0] == 1.5
    assert run(columns.around, case, 1, 3)[0] == 1


@searches(50)
@given(rows())
def test_sign_vote(given_rows):
    """Signs are counted, denormal ones too; zeros, -0.0 as well, abstain."""
    answer, finite = run(columns.sign_vote, given_rows)
    assert finite and (answer == naive.sign_vote(given_rows.matrix)).all()


@searches(60)
@given(faulty_rows())
def test_faulty_entries_are_reported(case):
    """One NaN or infinity anywhere turns the flag of every statistic."""
    given_rows, faulty = case
    assert not run(columns.median, given_rows)[1]
    assert not run(columns.trimmed_mean, given_rows, 0)[1]
    assert not run(columns.around, given_rows, -1, 1)[1]
    assert not run(columns.sign_vote, given_rows)[1]
    sound = [i for i in range(len(given_rows.matrix)) if i not in faulty]
    if sound:
        rest = Rows(given_rows.matrix[sound], given_rows.layout)
        assert run(columns.median, rest)[1] and run(columns.around, rest, 0, 1)[1]
