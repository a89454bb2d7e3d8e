"""Sparse and 8-bit updates."""

from typing import NoReturn

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.intake import quantised, sparse

D = 5000


def rows_and_pairs(n: int = 9, d: int = D) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    random = np.random.default_rng(0)
    rows, pairs = np.zeros((n, d), np.float32), []
    for row in rows:
        which = random.choice(d, d // 20, replace=False)
        values = random.normal(size=len(which)).astype(np.float32)
        row[which] = values
        pairs.append((which, values))
    return rows, pairs


@pytest.mark.parametrize("rule", [mt.Krum(f=2), mt.TrimmedMean(f=2), mt.NNM(f=2) >> mt.GeometricMedian(), mt.DnC(f=2)])
def test_sparse_updates_give_what_dense_ones_give(rule: mt.Rule) -> None:
    """To the rounding of sums over other ranges of coordinates."""
    rows, pairs = rows_and_pairs()
    entropy = mt.SeededEntropy(1)
    expected = rule.aggregate(rows, entropy=entropy)
    entropy = mt.SeededEntropy(1)
    found = rule.aggregate(sparse(pairs, D), entropy=entropy)
    np.testing.assert_allclose(found.update, expected.update, rtol=1e-5, atol=1e-7)
    assert found.selected == expected.selected and found.update.dtype == np.float32


@pytest.mark.parametrize("group", [1, 7, 4999, 5000, 9000])
def test_eight_bits_give_what_dense_ones_give(group: int) -> None:
    random = np.random.default_rng(1)
    codes = random.integers(-128, 128, size=(9, D), dtype=np.int8)
    scales = random.uniform(0.01, 1.0, size=(9, -(-D // group))).astype(np.float32)
    rows = codes * np.repeat(scales, group, axis=1)[:, :D]
    found = mt.Comed()(quantised(list(zip(codes, scales, strict=True)), D, group))
    np.testing.assert_array_equal(found, mt.Comed()(rows))
    some = quantised([(codes[0], scales[0])], D, group).storage.coordinates(np.array([0, 4998]))
    np.testing.assert_array_equal(some[0], rows[0, [0, 4998]])


def test_nothing_of_size_n_times_d_is_made() -> None:
    """A block is all that is expanded, whatever d."""
    import tracemalloc

    n, d = 9, 2_000_000
    pairs = [(np.array([index]), np.array([1.0], np.float32)) for index in range(n)]
    mt.Comed()(sparse(pairs, 10_000))  # compiles
    tracemalloc.start()
    mt.Comed()(sparse(pairs, d))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * d + n * d  # the result, and less than a quarter of the dense updates


class Hostile:
    """What a worker sent may fail in any way."""

    def __iter__(self) -> NoReturn:
        raise RuntimeError("none")


WRONG = {
    "coordinate -1, and there are 5,000": (np.array([-1, 3]), np.ones(2)),
    "coordinate 5000, and there are 5,000": (np.array([3, 5000]), np.ones(2)),
    "a coordinate twice": (np.array([3, 1, 3]), np.ones(3)),
    "2 indices and 3 values": (np.array([3, 4]), np.ones(3)),
    "indices of type float64": (np.array([3.0]), np.ones(1)),
    "numbers of type <U1": (np.array([3]), np.array(["x"])),
    "not a pair of arrays": None,
    "arrays of more than one dimension": (np.zeros((2, 2), int), np.ones((2, 2))),
    "not finite": (np.array([3]), np.array([np.nan])),
    "not an update (RuntimeError: none)": Hostile(),
}


@pytest.mark.parametrize("reason", WRONG)
def test_an_update_of_another_form_is_removed_and_named(reason: str) -> None:
    _, pairs = rows_and_pairs()
    result = mt.TrimmedMean(f=1).aggregate(sparse([*pairs, WRONG[reason]], D))
    assert [(each.row, each.reason) for each in result.quarantined] == [(9, reason)]


def test_eight_bit_updates_of_another_form_are_removed_and_named() -> None:
    sound = (np.ones(4, np.int8), np.ones(2, np.float32))
    wrong = [
        (np.ones(4, np.int16), np.ones(2)),
        (np.ones(3, np.int8), np.ones(2)),
        (np.ones(4, np.int8), [np.inf, 1.0]),
    ]
    for each in wrong:
        result = mt.Comed().aggregate(quantised([sound, sound, sound, each], 4, 2))
        assert [gone.row for gone in result.quarantined] == [3]
        np.testing.assert_array_equal(result.update, np.ones(4))


def test_nothing_but_wrong_updates_is_refused() -> None:
    for sent, why in (([], "there is none"), ([WRONG["a coordinate twice"]], "update 0 is a coordinate twice")):
        with pytest.raises(ValueError, match=f"need a sound one among them, and {why}"):
            sparse(sent, D)


def test_digests_cover_faulty_updates_too() -> None:
    _, pairs = rows_and_pairs()
    digests = sparse([*pairs, WRONG["a coordinate twice"]], D).digests()
    assert len({bytes(digest or b"") for digest in digests}) == 10
