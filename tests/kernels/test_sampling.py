"""Coordinates drawn without replacement."""

from collections import Counter
from math import comb

import numpy as np
import pytest

from mixtailor.kernels import sampling


@pytest.mark.parametrize(("d", "count"), [(5, 2), (5, 3), (7, 6), (66, 1), (66, 65)])
def test_every_set_of_coordinates_is_equally_likely(d, count):
    """Chi-square over all sets, each expected a hundred times; the draw repeats itself, so the test does."""
    random, draws = np.random.default_rng(2022), 100 * comb(d, count)
    found = Counter(tuple(sampling.draw(random, d, count)) for _ in range(draws))
    assert len(found) == comb(d, count)
    degrees = len(found) - 1
    assert sum((times - 100) ** 2 / 100 for times in found.values()) < degrees + 5 * (2 * degrees) ** 0.5


@pytest.mark.parametrize("d", [1, 63, 64, 65, 1000, 21_840])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.46, 0.5, 0.9, 1.0])
def test_coordinates_differ_and_are_in_order(d, share):
    count = min(int(share * d), d - 1)
    drawn = sampling.draw(np.random.default_rng(d), d, count)
    assert drawn.shape == (count,)
    assert (np.diff(drawn) > 0).all()
    assert count == 0 or (drawn[0] >= 0 and drawn[-1] < d)


@pytest.mark.parametrize("bits", [np.random.PCG64DXSM, np.random.Philox, np.random.MT19937])
def test_the_same_randomness_draws_the_same(bits):
    first, second = (sampling.draw(np.random.Generator(bits(7)), 5000, 300) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_more_coordinates_than_32_bits_count():
    drawn = sampling.draw(np.random.default_rng(0), 1 << 33, 5)
    assert len(set(drawn.tolist())) == 5
    assert drawn.max() < 1 << 33


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_on_some_coordinates(dtype):
    rows = np.random.default_rng(1).normal(size=(4, 1000)).astype(dtype)
    addresses = np.array([row.ctypes.data for row in rows], np.intp)
    which = np.array([0, 3, 999], np.intp)
    out = np.empty((4, 3), dtype)
    sampling.pick(addresses, np.empty(0, dtype), 1000, which, out)
    np.testing.assert_array_equal(out, rows[:, which])
