"""What is between the first layer of a perceptron and the gradient of its weights."""

import numpy as np
import pytest

from mixtailor.kernels.perceptron import between_layers
from mixtailor.kernels.sparse import SINGLES, laid_out


def _padded(rows: np.ndarray) -> np.ndarray:
    pitch = -(-rows.shape[-1] // SINGLES) * SINGLES
    return np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, pitch - rows.shape[-1])]).astype(np.float32)


@pytest.mark.parametrize(("units", "classes"), [(100, 10), (8, 2), (3, 1), (17, 16), (5, 130)])
def test_gradients_and_losses_are_those_of_the_formulas(units: int, classes: int) -> None:
    """Against the chain rule in float64, for units and classes that fill no register."""
    rng = np.random.default_rng(units)
    n, count = 3, 6
    before = rng.normal(size=(n, count, units)).astype(np.float32)
    weight = rng.normal(size=(classes, units)).astype(np.float32)
    bias = rng.normal(size=classes).astype(np.float32)
    labels = rng.integers(0, classes, (n, count))
    hidden, slopes = _padded(before).reshape(n * count, -1), _padded(np.full_like(before, np.nan))
    below, above = np.full((n, units), np.nan, np.float32), np.full((n, classes), np.nan, np.float32)
    second, losses = np.full((n, classes, units), np.nan, np.float32), np.empty(n, np.float32)
    between_layers(hidden, labels, weight, bias, slopes, (below, second, above), losses)

    active = np.maximum(before.astype(np.float64), 0.0)
    outputs = active @ weight.T.astype(np.float64) + bias
    logs = outputs - np.log(np.exp(outputs).sum(-1, keepdims=True))
    wanted = (np.exp(logs) - np.eye(classes)[labels]) / count
    back = (wanted @ weight.astype(np.float64)) * (before > 0)
    assert hidden.reshape(n, count, -1)[..., :units] == pytest.approx(active)
    assert losses == pytest.approx(-np.take_along_axis(logs, labels[..., None], -1).mean((1, 2)), rel=1e-5, abs=1e-6)
    assert slopes[..., :units] == pytest.approx(back, rel=1e-4, abs=1e-6)
    assert (slopes[..., units:] == 0).all()
    assert below == pytest.approx(back.sum(1), rel=1e-4, abs=1e-6)
    assert above == pytest.approx(wanted.sum(1), rel=1e-4, abs=1e-6)
    assert second == pytest.approx(np.einsum("ikc,iku->icu", wanted, active), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("units", "width"), [(100, 784), (3, 7), (8, 8), (17, 33), (9, 1)])
def test_a_weight_is_laid_out_for_the_first_layer(units: int, width: int) -> None:
    """Transposed to the last digit, and each unit's sum in its base."""
    rng = np.random.default_rng(units)
    weight, bias = rng.normal(size=(units, width)).astype(np.float32), rng.normal(size=units).astype(np.float32)
    table, base = _padded(np.zeros((width, units))), _padded(np.full(units, np.nan))
    laid_out(weight, bias, np.float32(0.4), table, base)
    assert (table[:, :units] == weight.T).all() and (table[:, units:] == 0).all()
    assert base[:units] == pytest.approx(bias - 0.4 * weight.sum(1, dtype=np.float64), rel=1e-4, abs=1e-4)
    assert (base[units:] == 0).all()
