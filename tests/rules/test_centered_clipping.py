"""CenteredClipping."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked
from numpy.typing import NDArray

from mixtailor.preaggregation import NNM
from mixtailor.rules import CenteredClipping


def medoid(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The row whose floor(n/2)-th nearest other row is closest."""
    ranked = np.sort(naive.distances(rows), axis=1)[:, len(rows) // 2]
    chosen: NDArray[np.float64] = rows[int(np.argmin(ranked))]
    return chosen


def test_by_hand() -> None:
    """From 1 with tau = 1: pulls -1, 0, 1, 1 make 1.25; then -1, -0.25, 0.75, 1 make 1.375."""
    rows, start = np.array([[0.0], [1.0], [2.0], [90.0]]), np.array([1.0])
    assert CenteredClipping(tau=1.0)(rows, reference=start) == pytest.approx([1.25])
    assert CenteredClipping(tau=1.0, iterations=2)(rows, reference=start) == pytest.approx([1.375])


def test_starts_at_the_medoid() -> None:
    """Without a reference: only 2 has two rows within 1, and pulls -1, -0.8, 0, 1, 1 from there make 2.04."""
    result = CenteredClipping(tau=1.0).aggregate(np.array([[0.0], [1.2], [2.0], [3.0], [90.0]]))
    assert result.update == pytest.approx([2.04])
    assert result.weights is not None
    assert result.weights.sum() == pytest.approx(1.0)


def test_one_row() -> None:
    """The requirement is n >= 1."""
    np.testing.assert_array_equal(CenteredClipping(tau=1.0, iterations=3)(np.array([[3.0, 4.0]])), [3.0, 4.0])


@pytest.mark.parametrize("wrong", [{"tau": 0.0}, {"tau": -1.0}, {"tau": float("nan")}, {"tau": 1.0, "iterations": 0}])
def test_refuses_wrong_parameters(wrong: dict[str, float]) -> None:
    """At construction."""
    with pytest.raises(ValueError, match="CenteredClipping needs"):
        CenteredClipping(**wrong)  # type: ignore[arg-type]  # that is the point


def test_one_row_moves_the_answer_by_its_share() -> None:
    """Whatever it holds: tau / n."""
    rows = attacked(1.0, outliers=0, dtype=np.float64)
    start = rows[0]
    moved = rows.copy()
    moved[3] = start
    lengths = []
    for far in (1.0, 1e10, 1e100, 1e300):
        rows[3] = start + far
        difference = CenteredClipping(tau=0.5)(rows, reference=start) - CenteredClipping(tau=0.5)(
            moved, reference=start
        )
        lengths.append(np.linalg.norm(difference))
    assert max(lengths) <= 0.5 / 11 * (1 + 1e-9)
    np.testing.assert_allclose(lengths[:3], 0.5 / 11)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("trusted", [True, False])
def test_agrees_with_the_oracle(seed: int, trusted: bool) -> None:
    """The n-space iterations are the d-space ones."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(int(random.integers(2, 20)), 30)) + random.choice([0.0, 100.0])
    reference = random.normal(size=30) if trusted else None
    tau, steps = float(random.choice([0.1, 3.0, 50.0])), int(random.integers(1, 8))
    centre = medoid(rows) if reference is None else reference
    expected = naive.centered_clipping(rows, centre=centre, radius=tau, iterations=steps)
    answer = CenteredClipping(tau=tau, iterations=steps)(rows, reference=reference)
    np.testing.assert_allclose(answer, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("iterations", [1, 10])
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("far", FAR)
def test_far_rows_cost_no_digits(far: float, trusted: bool, iterations: int) -> None:
    """A far row pulls by tau in its direction, and the honest rows keep their digits."""
    rows = attacked(far, outliers=3).astype(np.float64)
    reference = np.zeros(40) if trusted else None
    centre = medoid(rows) if reference is None else reference
    expected = naive.centered_clipping(rows, centre=centre, radius=1.0, iterations=iterations)
    answer = CenteredClipping(tau=1.0, iterations=iterations)(rows, reference=reference)
    assert np.linalg.norm(answer - expected) < 1e-6


@pytest.mark.parametrize("trusted", [True, False])
def test_rows_at_the_end_of_float64(trusted: bool) -> None:
    """They have no say, and leave the others theirs."""
    rows = attacked(1e300, outliers=2, dtype=np.float64)
    reference = np.ones(40) if trusted else None
    answer = CenteredClipping(tau=1.0, iterations=5)(rows, reference=reference)
    assert np.linalg.norm(answer - np.ones(40)) < 1.0


def test_a_far_reference_is_walked_away_from() -> None:
    """A start at 1e6 spreads with a tau of the same size: the second step is right to the digits of the spread."""
    rows = attacked(1.0, outliers=0, dtype=np.float64)
    reference = np.full(40, 1e6)
    expected = naive.centered_clipping(rows, centre=reference, radius=4e6, iterations=4)
    answer = CenteredClipping(tau=4e6, iterations=4)(rows, reference=reference)
    assert np.linalg.norm(answer - expected) < 1e-6


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """It leaves and is named, with a reference and without."""
    rows = attacked(2.0, dtype=np.float64)
    rows[4, 7] = np.nan
    for reference in (None, np.ones(40)):
        for iterations in (1, 3):
            result = CenteredClipping(tau=1.0, iterations=iterations).aggregate(rows, reference=reference)
            assert np.isfinite(result.update).all()
            assert [fault.row for fault in result.quarantined] == [4]


@pytest.mark.parametrize("trusted", [True, False])
def test_behind_a_pre_aggregation(trusted: bool) -> None:
    """Mixed rows are clipped as rows are."""
    rows = attacked(5.0, outliers=2, dtype=np.float64)
    reference = np.linspace(0, 1, 40) if trusted else None
    mixed = naive.nnm(rows, 2)
    centre = medoid(mixed) if reference is None else reference
    expected = naive.centered_clipping(mixed, centre=centre, radius=0.5, iterations=3)
    rule = NNM(f=2) >> CenteredClipping(tau=0.5, iterations=3)
    np.testing.assert_allclose(rule(rows, reference=reference), expected, rtol=1e-7)


def test_a_row_at_the_end_of_the_range_pulls_as_any_far_one() -> None:
    """From 1, the medoid, 0, 1 and 5 pull three times, by a quarter each, and the fourth row by ten over four."""
    rows = np.array([[0.0], [1.0], [5.0], [1e139]])
    expected = 1.0
    for _ in range(3):
        expected += (6.0 - 3 * expected + 10.0) / 4
    np.testing.assert_allclose(CenteredClipping(tau=10.0, iterations=3)(rows), [expected], rtol=1e-12)


def test_the_order_of_rows_does_not_choose_the_start() -> None:
    """Two rows that are each other's floor(n/2)-th neighbour tie, benign ones too: it starts at the mean of both."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(int(rng.integers(2, 12)), int(rng.integers(1, 6))))
        rule = CenteredClipping(tau=float(rng.uniform(0.1, 3.0)), iterations=int(rng.integers(1, 4)))
        np.testing.assert_allclose(rule(rng.permutation(rows)), rule(rows), rtol=1e-9, atol=1e-12)
    assert CenteredClipping(tau=1.0)(np.array([[0.0], [4.0]])) == pytest.approx([2.0])


@pytest.mark.parametrize(("dtype", "size"), [(np.float16, 1e6), (np.float32, 1e39)])
def test_a_reference_that_the_type_cannot_hold_is_refused(dtype: type, size: float) -> None:
    """The result would start there, and be infinite."""
    rows = np.ones((5, 3), dtype)
    for sent in (rows, list(rows), [{"a": row} for row in rows]):
        reference = np.full(3, size)
        with pytest.raises(ValueError, match=f"needs entries that {np.dtype(dtype).name}, the type of the updates"):
            CenteredClipping(tau=1.0)(sent, reference={"a": reference} if isinstance(sent[0], dict) else reference)
    assert np.isfinite(CenteredClipping(tau=1.0)(rows, reference=np.full(3, 6e4))).all()


@pytest.mark.parametrize("far", [1e139, 1e141, 1e200, 1e300])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-3, 1.0])
@pytest.mark.parametrize("iterations", [1, 3])
def test_updates_too_far_to_be_squared_do_not_move_the_result(far: float, size: float, iterations: int) -> None:
    """Where the start is found among the updates, too: such an update is pulled by at most tau, or left out."""
    rows = np.vstack([size * np.random.default_rng(0).normal(size=(9, 8)), np.full((2, 8), far)])
    found = CenteredClipping(tau=3.0, iterations=iterations)(rows)
    assert np.linalg.norm(found) <= 3.0 * iterations + np.linalg.norm(rows[:9], axis=1).max()
