"""DnC."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked
from attacked import seen as view

from mixtailor.kernels.sampling import draw
from mixtailor.mixing.entropy import SeededEntropy
from mixtailor.preaggregation import Bucketing
from mixtailor.rules import DnC, Krum, Rule, Sketched
from mixtailor.rules._spectra import Spread
from mixtailor.rules.dnc import outwards


def test_by_hand() -> None:
    """1, 2, 3, 10: about the mean 4 the scores are 9, 4, 1 and 36, so that 10 leaves."""
    result = DnC(f=1).aggregate(np.array([[1.0], [2.0], [3.0], [10.0]]))
    assert result.update == pytest.approx([2.0])
    assert result.selected == (0, 1, 2)
    np.testing.assert_array_equal(result.scores, [0.0, 0.0, 0.0, 1.0], "one sample holds all coordinates")


def test_equal_scores_leave_by_index() -> None:
    """-1 and 1 are equally far out: the row of the lower index stays."""
    assert DnC(f=1).aggregate(np.array([[-1.0], [0.0], [1.0]])).selected == (0, 1)


def test_requirement() -> None:
    """2f + 1 rows suffice, even where twice f leave, and 2f do not."""
    rows = np.arange(10.0)[:, None] ** 2
    assert len(DnC(f=2, fraction=2.0).aggregate(rows[:5]).selected or ()) == 1
    with pytest.raises(ValueError, match=r"DnC\(f=2\) needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        DnC(f=2)(rows[:4])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"fraction": 2.5}, "fraction <= 2"),
        ({"fraction": 0.0}, "fraction > 0"),
        ({"iterations": 0}, "iterations >= 1"),
        ({"coordinates": 0}, "coordinates >= 1"),
    ],
)
def test_refuses_wrong_parameters(wrong: dict[str, float], sentence: str) -> None:
    """At construction, and with what is needed."""
    with pytest.raises(ValueError, match=sentence):
        DnC(f=1, **wrong)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("seed", range(10))
def test_agrees_with_the_oracle(seed: int) -> None:
    """On the same samples of the coordinates, the same rows are kept."""
    random = np.random.default_rng(seed)
    n, d, samples = int(random.integers(5, 16)), 60, int(random.integers(1, 4))
    f = int(random.integers(0, min((n - 1) // 2, (n - 1) // samples) + 1))
    rows = random.normal(size=(n, d)) + 5
    rows[: f // 2] -= 3
    twin = np.random.default_rng(seed)
    coordinates = [draw(twin, d, 25) for _ in range(samples)]
    updates = view(rows, seed)
    point = DnC(f=f, coordinates=25, iterations=samples).decide(updates)
    assert list(point.facts["selected"]) == naive.dnc_rows(rows, f, coordinates)  # type: ignore[call-overload]  # a fact is an object to mypy
    np.testing.assert_allclose(updates.at(point), naive.dnc(rows, f, coordinates), rtol=1e-12)


@pytest.mark.parametrize("outliers", [1, 3])
@pytest.mark.parametrize("far", FAR)
def test_far_rows_cost_no_digits(far: float, outliers: int) -> None:
    """Outliers of one direction leave together, and the mean of the rest is untouched by them."""
    rows = attacked(far, outliers=outliers)
    answer = DnC(f=outliers)(rows.astype(np.float64))
    assert np.linalg.norm(answer - naive.dnc(rows, outliers, [range(40)])) < 1e-6


@pytest.mark.parametrize("far", [1e8, 1e20, 1e38])
def test_the_row_that_leaves_beside_a_far_one(far: float) -> None:
    """With f = 2 and one outlier, the honest row that leaves is the one least far along it, as in exact arithmetic."""
    along = np.array([0.3, -0.7, 0.1, 0.9, -0.2, 0.5])
    rows = np.column_stack([along, np.linspace(0, 0.01, 6)])
    rows = np.vstack([rows, [far, 0.0]])
    assert DnC(f=2).aggregate(rows).selected == (0, 2, 3, 4, 5)


def test_outwards_orders_what_rounding_makes_equal() -> None:
    """About a centre at 1e20, -1 is farther than 0 and 0 farther than 1."""
    spread = Spread(1.0, np.array([0.0, 1.0, -1.0, 9e20]), 1e20, np.zeros(4))
    assert outwards(spread).tolist() == [1, 0, 2, 3]


def test_where_every_row_is_dropped_the_least_dropped_stay() -> None:
    """Each of four coordinates drops another row, and each row is dropped by one sample in some draw."""
    rows = np.zeros((3, 3))
    np.fill_diagonal(rows, 1.0)
    seen = set()
    for seed in range(40):
        point = DnC(f=1, coordinates=1, iterations=3).decide(view(rows, seed))
        counts = np.asarray(point.facts["scores"])
        assert counts.sum() == 3
        assert list(point.facts["selected"]) == np.nonzero(counts == counts.min())[0].tolist()  # type: ignore[call-overload]  # as above
        seen.add(tuple(np.sort(counts)))
    assert (1.0, 1.0, 1.0) in seen


def test_randomness_comes_from_the_key_of_the_call() -> None:
    """One key, one result; another key, another one; numpy's own seed has no part in it."""
    rows = np.random.default_rng(2).normal(size=(12, 500))
    rule = DnC(f=2, coordinates=5, iterations=2)
    np.random.seed(1)  # noqa: NPY002  # the seed that must not matter
    first = rule(rows, entropy=SeededEntropy(7))
    np.random.seed(2)  # noqa: NPY002  # the seed that must not matter
    np.testing.assert_array_equal(first, rule(rows, entropy=SeededEntropy(7)))
    assert any((first != rule(rows, entropy=SeededEntropy(other))).any() for other in range(5))


@pytest.mark.parametrize("coordinate", range(8))
def test_a_faulty_row_does_not_reach_the_answer(coordinate: int) -> None:
    """Whether the sample holds the entry or only the rows kept do, the row leaves and is named, or is not used."""
    rows = attacked(2.0, d=8).astype(np.float64)
    rows[4, coordinate] = np.nan
    result = DnC(f=2, coordinates=3, iterations=2).aggregate(rows, entropy=SeededEntropy(1))
    assert np.isfinite(result.update).all()
    assert [fault.row for fault in result.quarantined] == [4] or 4 not in (result.selected or (4,))


@pytest.mark.parametrize("before", [None, Bucketing(size=2)])
def test_faulty_rows_are_named_as_received(before: Bucketing | None) -> None:
    """A sample counts its rows from zero, after others have left, and when they are means of rows: it names none."""
    rows = attacked(2.0, d=8).astype(np.float64)
    rows[4, 0] = np.nan
    rows[9, 1] = np.inf
    rule = DnC(f=2, coordinates=3, iterations=3)
    found = set()
    for seed in range(20):
        result = (rule if before is None else before >> rule).aggregate(rows, entropy=SeededEntropy(seed))
        assert np.isfinite(result.update).all()
        found |= {fault.row for fault in result.quarantined}
    assert found == {4, 9}


@pytest.mark.parametrize("rule", [DnC(f=2, coordinates=1), Sketched(Krum(f=2), 3)], ids=str)
def test_entries_beyond_what_can_be_squared_are_faults_of_the_rows_received(rule: Rule) -> None:
    """One row leaves first, so that the others have moved up: naming them by their new place would never end."""
    rows = attacked(2.0, d=2).astype(np.float64)
    rows[0, :] = np.nan
    rows[9, :] = 1e200
    assert {fault.row for fault in rule.aggregate(rows).quarantined} == {0, 9}


def test_a_fault_that_no_sample_holds_is_not_found() -> None:
    """The row with it leaves for another reason in some draws: a rule that samples does not say that it reads all."""
    rows = attacked(2.0, d=8).astype(np.float64)
    rows[4] = 50.0
    rows[4, 0] = np.nan
    rule = DnC(f=2, coordinates=1, iterations=1)
    found = {bool(rule.aggregate(rows, entropy=SeededEntropy(seed)).quarantined) for seed in range(15)}
    assert found == {False, True} and not rule.reads_all
