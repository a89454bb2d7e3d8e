"""Partitions: nothing lost, nothing duplicated, nobody without."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixtailor.simulation import PARTITIONS, by_label, dirichlet, iid, shards, similarity

WAYS = {
    "iid": iid,
    "by_label": by_label,
    "dirichlet 1e-300": partial(dirichlet, alpha=1e-300),
    "dirichlet 0.1": partial(dirichlet, alpha=0.1),
    "dirichlet 1e6": partial(dirichlet, alpha=1e6),
    "shards 1": partial(shards, per_worker=1),
    "shards 3": partial(shards, per_worker=3),
    "similarity 0": partial(similarity, gamma=0.0),
    "similarity 0.3": partial(similarity, gamma=0.3),
    "similarity 1": partial(similarity, gamma=1.0),
}


@pytest.mark.parametrize("way", WAYS)
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=80),
    workers=st.integers(1, 12),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=40, deadline=None)
def test_every_example_has_exactly_one_holder(way: str, labels: list[int], workers: int, seed: int) -> None:
    """The parts together are the data set, every worker has something, and the same seed gives the same parts."""
    if _cannot_be_dealt(way, labels, workers):
        with pytest.raises(ValueError):
            WAYS[way](labels, workers, np.random.default_rng(seed))
        return
    parts = WAYS[way](labels, workers, np.random.default_rng(seed))
    assert len(parts) == workers
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
    assert all(len(part) and part.dtype == np.int64 and (np.diff(part) > 0).all() for part in parts)
    again = WAYS[way](labels, workers, np.random.default_rng(seed))
    assert all((one == other).all() for one, other in zip(parts, again, strict=True))


def _cannot_be_dealt(way: str, labels: list[int], workers: int) -> bool:
    if way == "by_label":
        counts = [labels.count(label) for label in sorted(set(labels))]
        holders = [len(range(position, workers, len(counts))) for position in range(len(counts))]
        return workers > len(labels) or any(held < share for held, share in zip(counts, holders, strict=True))
    return workers * (3 if way == "shards 3" else 1) > len(labels)


def test_the_papers_setting_gives_each_honest_worker_one_digit() -> None:
    labels = np.random.default_rng(0).permutation(np.arange(1000) % 10)
    for digit, part in enumerate(by_label(labels, 10, np.random.default_rng(1))):
        assert set(labels[part]) == {digit} and len(part) == 100


def test_more_workers_than_labels_share_evenly() -> None:
    labels = np.arange(100) % 10
    parts = by_label(labels, 12, np.random.default_rng(1))
    assert [len(part) for part in parts] == [5, 5] + [10] * 8 + [5, 5]
    assert all(set(labels[part]) == {worker % 10} for worker, part in enumerate(parts))


def test_fewer_workers_than_labels_take_several() -> None:
    labels = np.arange(100) % 10
    assert [set(labels[part]) for part in by_label(labels, 4, np.random.default_rng(1))] == [
        {0, 4, 8},
        {1, 5, 9},
        {2, 6},
        {3, 7},
    ]


def test_alpha_and_gamma_say_how_alike_the_workers_are() -> None:
    """The mean number of labels that a worker sees grows with both."""
    labels = np.arange(2000) % 10

    def seen(way: str, **options: float) -> float:
        parts = PARTITIONS[way](labels, 10, np.random.default_rng(0), **options)
        return float(np.mean([len(set(labels[part])) for part in parts]))

    assert seen("dirichlet", alpha=0.01) < 4 < seen("dirichlet", alpha=100.0) == 10
    assert seen("similarity", gamma=0.0) <= 2 < seen("similarity", gamma=1.0) == 10
    assert [len(part) for part in similarity(labels[:99], 10, np.random.default_rng(0), gamma=0.5)].count(10) >= 8


@pytest.mark.parametrize(
    ("way", "options", "words"),
    [
        ("iid", {}, "1 <= workers <= examples"),
        ("dirichlet", {"alpha": 0.0}, "alpha above 0"),
        ("dirichlet", {"alpha": float("nan")}, "alpha above 0"),
        ("similarity", {"gamma": 1.5}, "0 <= gamma <= 1"),
        ("shards", {"per_worker": 0}, "per_worker"),
    ],
)
def test_impossible_requests_are_refused(way: str, options: dict[str, float], words: str) -> None:
    workers = 11 if not options else 2
    with pytest.raises(ValueError, match=words):
        PARTITIONS[way](np.arange(10) % 2, workers, np.random.default_rng(0), **options)


def test_by_label_with_a_worker_that_holds_everything() -> None:
    """As in the paper's published code: worker 0 has all digits, the others one each."""
    labels = np.arange(30) % 3
    parts = by_label(labels, 3, np.random.default_rng(0), whole=1)
    assert parts[0].tolist() == list(range(30))
    assert [set(labels[part]) for part in parts[1:]] == [{1}, {2}]
    with pytest.raises(ValueError, match="0 <= whole <= workers"):
        by_label(labels, 3, np.random.default_rng(0), whole=4)
