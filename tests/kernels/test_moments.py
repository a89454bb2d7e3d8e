"""Standard deviations and extreme values against numpy."""

import numpy as np
import pytest

from mixtailor.kernels import moments
from mixtailor.kernels.space import Block


def asked(kernel, rows, option):
    out = np.empty(rows.shape[1], rows.dtype)
    block = Block.of(rows)
    return kernel(block.addresses, block.like, block.width, option, out), out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 255, 256, 1000])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_against_numpy(dtype, width, offset) -> None:
    """About a large mean as well, where sums of squares would lose the digits."""
    rows = (np.random.default_rng(width).normal(size=(7, width)) + offset).astype(dtype)
    wide = rows.astype(np.float64)
    for ddof in (0, 1):
        finite, out = asked(moments.deviation, rows, ddof)
        assert finite
        np.testing.assert_allclose(out, wide.std(axis=0, ddof=ddof), rtol=1e-6 if dtype == np.float32 else 1e-9)
    np.testing.assert_array_equal(asked(moments.extreme, rows, True)[1], rows.max(axis=0))
    np.testing.assert_array_equal(asked(moments.extreme, rows, False)[1], rows.min(axis=0))


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_faults_are_seen(entry) -> None:
    """In any row and column."""
    rows = np.ones((5, 300), np.float32)
    rows[4, 299] = entry
    assert not asked(moments.deviation, rows, 0)[0]
    assert not asked(moments.extreme, rows, True)[0] and not asked(moments.extreme, rows, False)[0]
