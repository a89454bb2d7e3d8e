"""Sketches."""

import naive
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kernels.blocks import faulty_rows, rows, searches

from mixtailor.intake import receive
from mixtailor.kernels import sketches
from mixtailor.kernels.tensors import Tensors
from mixtailor.updates import Updates


def folded(matrix: np.ndarray, start: int, key: int, size: int) -> np.ndarray:
    """The plain way: one coordinate after another."""
    out, signs = naive.wide(np.zeros((len(matrix), size))), np.empty(size)
    for c in range(matrix.shape[1]):
        chunk, place = divmod(start + c, size)
        turned = sketches.signs_of(np.uint64(key), chunk, signs)
        out[:, (turned + place) % size] += naive.wide(signs[place]) * naive.wide(matrix[:, c])
    return out


@searches(40)
@given(st.data(), rows())
def test_agrees_with_the_plain_way(data, given_rows) -> None:
    """Any width, start and size; to rounding."""
    start, size = data.draw(st.integers(0, 5000)), data.draw(st.sampled_from([16, 64, 1000, 1024]))
    if given_rows.width > 3000:
        return
    found = sketches.fold(*given_rows.block, start, 77, size)
    expected = folded(given_rows.matrix, start, 77, size)
    largest = np.abs(naive.wide(given_rows.matrix)).sum(axis=1)[:, None] + np.finfo(np.float64).tiny
    assert np.all(np.abs(naive.wide(found) - expected) <= 1e-13 * largest)


@searches(20)
@given(faulty_rows())
def test_faulty_rows_show(case) -> None:
    given_rows, faulty = case
    found = sketches.fold(*given_rows.block, 0, 1, 64)
    assert not np.isfinite(found[faulty]).all(axis=1).any()


def test_ranges_add_up() -> None:
    """A row is sketched range by range, wherever the ranges begin."""
    matrix = np.random.default_rng(0).normal(size=(3, 5000))
    updates = Updates.arrived(receive(matrix))
    whole = updates.sketch(5, 256)
    space, block = updates.space, updates.source.block
    parts = sum(space.sketch(block(a, b), a, 5, 256) for a, b in [(0, 700), (700, 1024), (1024, 5000)])
    np.testing.assert_allclose(parts, whole, atol=1e-12)
    tensors = Tensors(torch.device("cpu")).sketch(torch.tensor(matrix[:, 700:]), 700, 5, 256)
    np.testing.assert_allclose(tensors.numpy(), space.sketch(block(700, 5000), 700, 5, 256), atol=1e-12)


def test_signs_and_buckets_are_even() -> None:
    """Half of the signs are negative, and no bucket is preferred, whatever the key."""
    signs, total, starts = np.empty(64), 0.0, []
    for key in range(50):
        for chunk in range(50):
            starts.append(sketches.signs_of(np.uint64(key), chunk, signs))
            total += signs.sum()
    assert abs(total) < 4 * np.sqrt(50 * 50 * 64)
    counts = np.bincount(starts, minlength=64)
    assert ((counts - 2500 / 64) ** 2 / (2500 / 64)).sum() < 120  # chi-squared with 63 degrees of freedom: p < 1e-5


@pytest.mark.parametrize("kind", ["dense", "one chunk", "same place of every chunk"])
def test_inner_products_are_those_of_the_rows(kind: str) -> None:
    """Right on average over keys, and to a few times sqrt(2 / size) for each, also where few coordinates matter."""
    random = np.random.default_rng(1)
    first, second = random.normal(size=(2, 8192))
    if kind == "one chunk":
        first[256:] = second[256:] = 0.0
    elif kind == "same place of every chunk":
        first[np.arange(8192) % 256 != 7] = second[np.arange(8192) % 256 != 7] = 0.0
    updates = Updates.arrived(receive(np.stack([first, second])))
    errors = []
    for key in range(200):
        one, two = updates.sketch(key, 256)
        errors.append((one @ two - first @ second) / (np.linalg.norm(first) * np.linalg.norm(second)))
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(200) + 1e-12
    assert np.std(errors) < 1.5 * np.sqrt(2 / 256)
