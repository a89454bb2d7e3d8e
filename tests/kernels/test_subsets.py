"""Means of subsets of the rows, by tables of partial sums."""

import numpy as np
import pytest

from mixtailor.kernels.space import Block
from mixtailor.kernels.subsets import codes_of, means_of_subsets


def _mixed(rows: np.ndarray, weights: np.ndarray, dtype: type) -> tuple[np.ndarray, bool]:
    block, found = Block.of(rows), codes_of(weights)
    assert found is not None
    out = np.empty((len(weights), rows.shape[1]), dtype)
    good = means_of_subsets(block.addresses, block.like, block.width, weights, *found, out)
    return out, good


def _weights(rng: np.random.Generator, answers: int, n: int) -> np.ndarray:
    weights = np.zeros((answers, n))
    for row in weights:
        kept = rng.choice(n, rng.integers(1, n + 1), replace=False)
        row[kept] = 1.0 / len(kept)
    return weights


@pytest.mark.parametrize(("answers", "n", "d"), [(1, 1, 1), (9, 7, 23), (50, 41, 64), (30, 83, 9)])
def test_means(answers: int, n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    rows, weights = rng.normal(size=(n, d)).astype(np.float32), _weights(rng, answers, n)
    out, good = _mixed(rows, weights, np.float64)
    assert good and np.allclose(out, weights @ rows.astype(np.float64), rtol=1e-12, atol=1e-14)
    assert np.allclose(_mixed(rows, weights, np.float32)[0], out, rtol=1e-7)


def test_a_row_outside_a_subset_takes_no_part_in_it() -> None:
    """Not a far one, which would cost the others their digits, nor one that is not finite."""
    rows = np.random.default_rng(0).normal(size=(12, 20)).astype(np.float32)
    rows[4], rows[7] = 3e38, np.nan
    weights = np.full((2, 12), 1 / 10)
    weights[:, [4, 7]] = 0.0
    out, good = _mixed(rows, weights, np.float64)
    others = np.delete(rows, [4, 7], axis=0).astype(np.float64)
    assert good and np.allclose(out, others.mean(axis=0), rtol=1e-12, atol=1e-14)
    weights[1, 7] = 1 / 10
    assert not _mixed(rows, weights, np.float64)[1]


def test_unequal_weights_are_no_subset() -> None:
    assert codes_of(np.array([[0.5, 0.25, 0.25]])) is None
    assert codes_of(np.array([[0.0, 0.0, 0.0]])) is None
    assert codes_of(np.array([[-0.5, 0.0, 0.5]])) is None
