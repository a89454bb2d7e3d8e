"""The first layer on examples of which most numbers are zero."""

import numpy as np
import pytest

from mixtailor.kernels.sparse import SINGLES, compress, outer_products, products


def _pitch(units: int) -> int:
    return -(-units // SINGLES) * SINGLES


def _examples(rng: np.random.Generator, count: int, width: int, share: float) -> np.ndarray:
    return (rng.integers(1, 256, (count, width)) * (rng.random((count, width)) < share)).astype(np.uint8)


@pytest.mark.parametrize(
    ("width", "units", "share"),
    [(784, 100, 0.2), (784, 10, 0.2), (7, 3, 0.5), (9, 8, 1.0), (16, 17, 0.0), (33, 150, 0.3), (40, 2 * 104 + 1, 0.3)],
)
def test_products_and_their_gradient_are_the_dense_ones(width: int, units: int, share: float) -> None:
    """For widths and units that fill no register, more units than registers hold, dense and empty examples."""
    rng = np.random.default_rng(width + units)
    examples = _examples(rng, 40, width, share)
    factor, shift = 0.013, 0.42
    compressed = compress(examples, factor)
    chosen = rng.integers(0, 40, (3, 5))  # an example may occur twice
    values = examples[chosen] * factor - shift

    weight, bias = rng.normal(size=(units, width)).astype(np.float32), rng.normal(size=units).astype(np.float32)
    table, base = np.zeros((width, _pitch(units)), np.float32), np.zeros(_pitch(units), np.float32)
    table[:, :units], base[:units] = weight.T, bias - shift * weight.sum(1)
    out = np.full((15, _pitch(units)), np.nan, np.float32)
    products(compressed, chosen.reshape(-1), table, base, out)
    size = np.abs(values).reshape(15, width) @ np.abs(weight).T.astype(np.float64) + 1
    dense = values.reshape(15, width) @ weight.T.astype(np.float64) + bias
    assert (np.abs(out[:, :units] - dense) <= 1e-5 * size).all()

    slopes = np.zeros((3, 5, _pitch(units)), np.float32)
    slopes[:, :, :units] = rng.normal(size=(3, 5, units))
    rows = np.full((3, units * width + 4), np.nan, np.float32)  # rows of a matrix, with other parameters behind
    target = np.lib.stride_tricks.as_strided(rows, (3, units, width), (rows.strides[0], 4 * width, 4))
    outer_products(compressed, chosen, slopes, shift, target)
    dense = np.einsum("iku,ikw->iuw", slopes[:, :, :units].astype(np.float64), values)
    size = np.einsum("iku,ikw->iuw", np.abs(slopes[:, :, :units]), np.abs(values)) + 1
    assert (np.abs(target - dense) <= 1e-5 * size).all()
    assert np.isnan(rows[:, units * width :]).all()


def test_a_slope_that_is_not_finite_is_not_hidden() -> None:
    """Where training diverges, the gradient has to show it, in every place of the unit."""
    compressed = compress(np.zeros((2, 20), np.uint8), 1.0)
    slopes = np.zeros((1, 2, SINGLES), np.float32)
    slopes[0, 1, 3] = np.nan
    out = np.zeros((1, 5, 20), np.float32)
    outer_products(compressed, np.array([[0, 1]]), slopes, 0.4, out)
    assert np.isnan(out[0, 3]).all()
    assert (out[0, :3] == 0).all()
