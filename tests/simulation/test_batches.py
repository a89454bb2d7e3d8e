"""Batches: each example once per epoch, a function of the batch's number alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixtailor.simulation import Batches


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4), size=st.integers(1, 12), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_each_example_comes_once_per_epoch(lengths: list[int], size: int, seed: int) -> None:
    """Cut a worker's batches anew into runs of its length: each run is a permutation of what it holds."""
    ends = np.cumsum(lengths)
    parts = [np.arange(end - length, end) for length, end in zip(lengths, ends, strict=True)]
    batches = Batches(parts, size=size, seed=seed)
    drawn = np.concatenate([batches(number) for number in range(7)], axis=1)
    for part, row in zip(parts, drawn, strict=True):
        for start in range(0, len(row) - len(part) + 1, len(part)):
            assert sorted(row[start : start + len(part)]) == part.tolist()


def test_order_of_asking_does_not_matter() -> None:
    """A resumed run asks for batch 40 first."""
    parts = [np.arange(30), np.arange(30, 47)]
    forward = Batches(parts, size=8, seed=3)
    in_order = [forward(number) for number in range(50)]
    other = Batches(parts, size=8, seed=3)
    assert (other(40) == in_order[40]).all() and (other(3) == in_order[3]).all()
    assert (other(40, workers=[1]) == in_order[40][1:]).all()
    assert not (Batches(parts, size=8, seed=4)(40) == in_order[40]).all()


def test_workers_without_examples_are_named() -> None:
    with pytest.raises(ValueError, match=r"workers \[1\] have none"):
        Batches([[1], []], size=2, seed=0)
    with pytest.raises(ValueError, match="size=0"):
        Batches([[1]], size=0, seed=0)
