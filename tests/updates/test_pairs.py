"""Decisions from float32 distances are those of float64 ones: what the bound leaves open is formed again."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.kernels.selection import by_neighbours, nearest
from mixtailor.preaggregation import base
from mixtailor.updates import Updates, geometry, pairs

N = 31


@pytest.fixture(autouse=True, scope="module")
def _from_few_rows_on() -> Iterator[None]:
    """By panels with fewer rows than the library takes them for, so that the oracle is quick."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (geometry, base):
            patch.setattr(module, "FEWEST", 24)
        patch.setattr(geometry, "SCORED", 24)
        yield


def _normal(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(N, 40)).astype(np.float32)


def _near_duplicates(rng: np.random.Generator) -> np.ndarray:
    """Rows that differ by single spacings about a far common offset."""
    base = (rng.normal(size=40) * 1e6).astype(np.float32)
    return (base + rng.integers(-2, 3, size=(N, 40)) * np.spacing(base)).astype(np.float32)


def _nearly_equal_scores(rng: np.random.Generator) -> np.ndarray:
    """Rows at right angles, their lengths a few spacings apart: scores differ by less than float32 can tell."""
    return np.diag(np.float32(1.0) + rng.integers(-3, 4, size=N) * np.float32(2.0**-23)).astype(np.float32)


def _ties(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-1, 2, size=(N, 3)).astype(np.float32)


def _equal(rng: np.random.Generator) -> np.ndarray:
    """A third of the rows are the same, one is a spacing away from them, and two more are equal."""
    rows = _normal(rng)
    rows[rng.choice(N, N // 3, replace=False)] = rows[0]
    rows[5] = rows[0]
    rows[5, 3] = np.nextafter(rows[0, 3], np.float32(9.0))
    rows[11] = rows[23]
    return rows


def _far(rng: np.random.Generator) -> np.ndarray:
    """Rows at 1e30 and 3e38 beside rows at 1e-6 and at one."""
    rows = _normal(rng)
    rows[2], rows[7], rows[8] = 1e30, 3e38, -3e38
    rows[9] *= np.float32(1e-6)
    return rows


def _subnormal(rng: np.random.Generator) -> np.ndarray:
    return (rng.integers(-9, 10, size=(N, 12)) * np.finfo(np.float32).smallest_subnormal).astype(np.float32)


def _sizes(rng: np.random.Generator) -> np.ndarray:
    """Every row of another size."""
    return (rng.normal(size=(N, 30)) * 10.0 ** rng.integers(-18, 18, size=(N, 1))).astype(np.float32)


def _half(rng: np.random.Generator) -> np.ndarray:
    return (rng.normal(size=(N, 40)) * 20_000).clip(-65_000, 65_000).astype(np.float16)


KINDS: list[Callable[[np.random.Generator], np.ndarray]] = [
    _normal,
    _near_duplicates,
    _nearly_equal_scores,
    _ties,
    _equal,
    _far,
    _subnormal,
    _sizes,
    _half,
]


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> Callable[[np.ndarray], Updates]:
    """Updates whose distances are all formed in float64, one tile of all rows at a time."""

    def made(rows: np.ndarray) -> Updates:
        monkeypatch.setattr(geometry, "FEWEST", 1 << 40)
        updates = Updates.arrived(receive(rows))
        updates.distances((1.0, 2.0, 3.0))
        monkeypatch.undo()
        return updates

    return made


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.sampled_from([1.0, 2.0, 3.0]), st.integers(1, N))
def test_decisions_are_those_of_float64(
    seed: int, make: Callable[[np.random.Generator], np.ndarray], p: float, count: int
) -> None:
    rows = make(np.random.default_rng(seed))
    neighbours = max(1, min(count, N - 2))
    updates = Updates.arrived(receive(rows))
    assert updates.basis.rough(p) is not None or make not in (_normal, _equal, _half)
    found, _ = updates.by_neighbours(neighbours, 2, p, certain=count)
    wide = rows.astype(np.float64)
    powers = np.array([(np.abs(wide - row) ** p).sum(axis=1) for row in wide])
    between = powers ** (1.0 / p)
    order, scores = by_neighbours(between, neighbours, 2)
    # Where float64 has no digits to tell scores apart, either row is right.
    last = scores[order[:count]].max()
    assert scores[found[:count]].max() <= last * (1 + 1e-13)
    chosen = updates.nearest(count, p)
    assert (chosen.sum(axis=1) == count).all() and chosen.diagonal().all()
    own = between.copy()
    own.flat[:: N + 1] = -1.0
    limit = np.take_along_axis(own, nearest(between, count), axis=1).max(axis=1)
    assert (np.where(chosen, own, -1.0).max(axis=1) <= limit * (1 + 1e-13) + (limit < 0)).all()


def test_few_pairs_are_formed_again() -> None:
    """On rows like gradients, the least score is certain from float32 alone."""
    rng = np.random.default_rng(2)
    rows = (rng.standard_t(3, size=(60, 3000)) * 1e-4).astype(np.float32)
    updates = Updates.arrived(receive(rows))
    updates.by_neighbours(46)
    rough = updates.basis.rough(2.0)
    assert rough is not None and rough.exact.sum() < 60 + 2 * 60 * 3
    assert 2.0 not in updates.basis.lengths


def test_equal_rows_are_found_and_share_their_distances() -> None:
    rows = _equal(np.random.default_rng(1))
    rough = Updates.arrived(receive(rows)).basis.rough(2.0)
    assert rough is not None
    for i in range(N):
        first = next(j for j in range(N) if np.array_equal(rows[j], rows[i]))
        assert rough.same[i] == first
        assert np.array_equal(rough.lengths[i], rough.lengths[first])
    assert rough.lengths[0, 5] > 0.0


@pytest.mark.parametrize("far", [None, 1e2, 1e6, 1e30])
def test_the_geometric_median_is_that_of_exact_distances(far: float | None, exact) -> None:
    rows = np.random.default_rng(4).normal(size=(40, 500)).astype(np.float32)
    rows[::7] = rows[0]
    if far is not None:
        rows[3] *= np.float32(far)
    rule = mt.GeometricMedian()
    known = exact(rows)
    apart = rule(rows).astype(np.float64) - known.at(rule.decide(known))
    assert np.abs(apart).max() <= 2e-6


def test_a_mixed_chain_needs_one_reading_of_pairs() -> None:
    """NNM in front of a rule that asks for distances, too: those of mixed rows follow from exact ones."""
    rows = np.random.default_rng(5).normal(size=(40, 300)).astype(np.float32)
    updates = Updates.arrived(receive(rows))
    (mt.NNM(8) >> mt.Krum(8)).decide(updates)
    assert 2.0 in updates.basis.lengths and not updates.basis._rough


def test_many_rows_are_divided_by_pairs() -> None:
    """From 400 rows on, ranges come one after the other and the threads share the pairs: the same decisions."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(411, 37)).astype(np.float32)
    rows[::9] = rows[4]
    wide = rows.astype(np.float64)
    between = np.sqrt(((wide[:, None] - wide) ** 2).sum(axis=2))
    updates = Updates.arrived(receive(rows))
    order, _ = by_neighbours(between, 327, 2)
    assert set(updates.by_neighbours(327, certain=50)[0][:50]) == set(order[:50])
    chosen = np.zeros((411, 411), np.bool_)
    np.put_along_axis(chosen, nearest(between, 329), True, axis=1)
    assert np.array_equal(updates.nearest(329), chosen)
    assert np.allclose(updates.distances(), between, rtol=1e-13)


@pytest.mark.parametrize("cluster", [1e-3, 0.0])
def test_a_cluster_of_near_rows_costs_no_second_reading_where_nothing_hangs_on_it(cluster: float) -> None:
    """A third of the rows nearly equal, or equal: products have no digits of their distances, and none are needed."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(60, 500)).astype(np.float32)
    rows[:20] = rows[0] * 3 + cluster * rng.normal(size=(20, 500))
    updates = Updates.arrived(receive(rows))
    order, _ = updates.by_neighbours(46)
    assert order[0] >= 20 and 2.0 not in updates.basis.lengths


def test_exact_distances_of_near_rows_come_from_differences() -> None:
    """Rows a thousand times as near to each other as to the rest keep all digits of their distance."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(40, 300)).astype(np.float32)
    rows[7] = rows[9] * np.float32(1 + 2**-10)
    wide = rows.astype(np.float64)
    found = Updates.arrived(receive(rows)).distances(2.0)
    exact = np.sqrt(((wide[:, None] - wide) ** 2).sum(-1))
    assert np.allclose(found, exact, rtol=1e-11, atol=0.0)
    assert abs(found[7, 9] / exact[7, 9] - 1.0) < 1e-14


def test_the_centre_may_be_any_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """About a row that is far away decisions stay those of exact arithmetic."""
    rows = _normal(np.random.default_rng(4))
    rows[6] = 1e5
    expected = Updates.arrived(receive(rows)).by_neighbours(20)[0][0]
    monkeypatch.setattr(pairs, "_usual_row", lambda reader: 6)
    assert Updates.arrived(receive(rows)).by_neighbours(20)[0][0] == expected
