"""The first layer on examples of which most numbers are zero."""

import numpy as np
import pytest

from mixtailor.kernels.sparse import SINGLES, compress, dense, products


def _pitch(units: int) -> int:
    return -(-units // SINGLES) * SINGLES


def _examples(rng: np.random.Generator, count: int, width: int, share: float) -> np.ndarray:
    return (rng.integers(1, 256, (count, width)) * (rng.random((count, width)) < share)).astype(np.uint8)


@pytest.mark.parametrize(
    ("width", "units", "share"),
    [(784, 100, 0.2), (784, 10, 0.2), (7, 3, 0.5), (9, 8, 1.0), (16, 17, 0.0), (33, 150, 0.3), (40, 2 * 104 + 1, 0.3)],
)
def test_products_and_examples_are_the_dense_ones(width: int, units: int, share: float) -> None:
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
    exact = values.reshape(15, width) @ weight.T.astype(np.float64) + bias
    assert (np.abs(out[:, :units] - exact) <= 1e-5 * size).all()

    written = np.full((15, width), np.nan, np.float32)
    dense(compressed, chosen.reshape(-1), shift, written)
    np.testing.assert_allclose(written.reshape(values.shape), values, rtol=1e-5, atol=1e-6)
