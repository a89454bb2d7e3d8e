"""Kernels that mix rows on their way give what they give of rows that were mixed before."""

from __future__ import annotations

import numpy as np
import pytest
from kernels.blocks import Rows, make

from mixtailor.kernels import columns, combinations, distances, products


def mixed(case: Rows, weights: np.ndarray) -> Rows:
    """The mixed rows in float64, where they are."""
    out = np.empty((len(weights), case.width))
    combinations.combine(*case.block, weights, out)
    return Rows(out)


def neighbours(rows: int, answers: int, rng: np.random.Generator) -> np.ndarray:
    """Weights as nearest-neighbour mixing has them."""
    weights = np.zeros((answers, rows))
    for line in weights:
        line[rng.permutation(rows)[: rows - 2]] = 1 / (rows - 2)
    return weights


@pytest.mark.parametrize("width", [5, 700, 4096, 5003])
@pytest.mark.parametrize("answers", [7, 9])
def test_columns_of_mixed_rows(answers, width):
    """To a rounding of float32 for median and trimmed mean, and as exactly around the median, ties and far rows too."""
    rng = np.random.default_rng(width)
    for kind in ("offset", "one far row", "ties"):
        case = Rows(make(kind, 9, width, np.float32, rng), "apart")
        weights = neighbours(9, answers, rng)
        before = mixed(case, weights)
        size = np.abs(np.sort(before.matrix, axis=0)[1:-1]).max(axis=0)
        for ask in (
            lambda block, out, **kw: columns.median(*block, out, **kw),
            lambda block, out, **kw: columns.trimmed_mean(*block, 2, out, **kw),
            lambda block, out, **kw: columns.around(*block, -1, answers - 2, out, **kw),
        ):
            found, expected = np.empty(width, np.float32), np.empty(width)
            assert ask(case.block, found, mixing=weights) and ask(before.block, expected)
            assert (np.abs(found - expected) <= 2.0**-22 * size).all()


@pytest.mark.parametrize("p", [3.0, np.inf])
def test_pairs_of_mixed_rows(p):
    rng = np.random.default_rng(1)
    for answers in (4, 9, 18):
        case = Rows(make("offset", 9, 1100, np.float32, rng), "padded")
        weights = neighbours(9, answers, rng)
        (found,) = distances.pair_sums(*case.block, np.array([p]), mixing=weights)
        before = mixed(case, weights)
        (expected,) = distances.pair_sums(*before.block, np.array([p]))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_faults_show_where_they_have_a_weight():
    """A row that is not finite and has no weight spoils nothing."""
    case = Rows(make("normal", 6, 4500, np.float32, np.random.default_rng(2)))
    case.memory[-6][123] = np.nan
    weights = np.eye(6)[1:]
    out = np.empty(4500, np.float32)
    assert columns.median(*case.block, out, mixing=weights) and np.isfinite(out).all()
    assert np.isfinite(distances.pair_sums(*case.block, np.array([3.0]), mixing=weights)).all()
    weights[2, 0] = 0.5
    assert not columns.median(*case.block, out, mixing=weights)
    bad = ~np.isfinite(distances.pair_sums(*case.block, np.array([3.0]), mixing=weights)[0])
    assert bad[2].all() and bad[:, 2].all() and bad.sum() == 9


def test_some_rows_of_a_gram_matrix():
    """The same digits as in the whole."""
    rng = np.random.default_rng(4)
    case = Rows(make("one far row", 7, 777, np.float32, rng), "apart")
    scales, which = rng.uniform(0.5, 2, size=7), np.array([5, 0], np.intp)
    whole = products.gram(*case.block, 3, scales)
    some = products.gram_rows(*case.block, 3, scales, which)
    np.testing.assert_allclose(some, whole[which], rtol=1e-12, atol=1e-12 * np.abs(whole).max())
