"""What an `Aggregation` tells people and machines, word for word."""

import json

import numpy as np
import pytest

import mixtailor as mt

ROWS = np.array([[0.0], [1.0], [2.0], [4.0], [9.0], [3.0]])
NAMES = ["ann", "bob", "cyn", "dan", "eve", "fay"]


def spoiled() -> np.ndarray:
    sent = ROWS.copy()
    sent[1] = np.nan
    return sent


def test_a_choice_is_told_with_its_scores_and_without_equal_weights() -> None:
    """Lowest scores first, rows that left last; the weights of a mean say nothing that the selection does not."""
    assert str(mt.MultiKrum(1, m=2).aggregate(spoiled(), workers=NAMES)).splitlines() == [
        "MultiKrum(f=1, m=2) on 6 updates",
        "  selected     cyn, fay",
        "  scores       fay: 2, cyn: 5, dan: 5, ann: 13, eve: 61, bob: nan",
        "  quarantined  row 1 (bob): not finite",
    ]


def test_weights_are_told_where_they_differ() -> None:
    """Largest first, with the iterations it took; CAF has no residual."""
    assert str(mt.CAF(1).aggregate(ROWS[:5])).splitlines() == [
        "CAF(f=1) on 5 updates",
        "  selected     0, 1, 2, 3",
        "  weights      3: 0.281, 2: 0.274, 1: 0.245, 0: 0.199, 4: 0",
        "  scores       4: 0, 0: 0.696, 1: 0.856, 2: 0.957, 3: 0.981",
        "  iterations   2",
        "  quarantined  none",
    ]
    # Two weights, one of them of a single row.
    text = str(mt.GeometricMedian(p=3).aggregate(ROWS[:3]))
    assert "\n  weights      1: 1, 0: 1e-06, 2: 1e-06\n  iterations   1, residual 0\n" in text


def test_an_answer_that_is_no_combination_has_neither() -> None:
    assert str(mt.Comed().aggregate(ROWS)) == "Comed() on 6 updates\n  quarantined  none"


@pytest.mark.parametrize(
    ("weights", "told"),
    [([0.0, 0.25, 0.75], ["  weights      2: 0.75, 1: 0.25, 0: 0"]), ([0.5, 0.0, 0.5], []), ([0.0, 0.0, 2.0], [])],
)
def test_weights_of_zero_make_no_difference(weights: list[float], told: list[str]) -> None:
    text = str(mt.Aggregation(ROWS[0], mt.CAF(1), 3, weights=np.array(weights)))
    assert text.splitlines()[1:] == [*told, "  quarantined  none"]


@pytest.mark.parametrize(("residual", "told"), [(None, "2"), (0.25, "2, residual 0.25"), (0.0, "2, residual 0")])
def test_iterations_are_told_and_a_residual_where_there_is_one(residual: float | None, told: str) -> None:
    text = str(mt.Aggregation(ROWS[0], mt.CAF(1), 6, iterations=2, residual=residual))
    assert text.splitlines()[1:] == [f"  iterations   {told}", "  quarantined  none"]


def test_a_skipped_round_says_so() -> None:
    text = str(mt.Krum(1).aggregate(np.vstack([spoiled(), spoiled()]), on_fault="skip"))
    assert text.splitlines()[1] == "  no update: more faults than f, round skipped"


def test_a_thousand_rows_stay_readable() -> None:
    """Twelve rows chosen, eight scores, six faults; then how many more there are."""
    rows = np.random.default_rng(0).normal(size=(40, 3))
    rows[:7] = np.inf
    lines = str(mt.MultiKrum(7).aggregate(rows)).splitlines()
    assert [line.split(" and ")[1] for line in lines[1:]] == ["14 more", "32 more", "1 more"]


def test_a_summary_is_json() -> None:
    """Every field as a plain number or null; NaN, which JSON has not, is null too."""
    summary = mt.MultiKrum(1, m=2).aggregate(spoiled(), workers=NAMES).summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == {
        "rule": "MultiKrum(f=1, m=2)",
        "n": 6,
        "weights": [0.0, 0.0, 0.5, 0.0, 0.0, 0.5],
        "selected": [2, 5],
        "scores": [13.0, None, 5.0, 5.0, 61.0, 2.0],
        "quarantined": [{"row": 1, "worker": "bob", "reason": "not finite"}],
        "iterations": None,
        "residual": None,
        "skipped": False,
    }
    summary = mt.GeometricMedian(p=3).aggregate(ROWS[:3]).summary()
    assert (summary["iterations"], summary["residual"], summary["scores"]) == (1, 0.0, None)
    skipped = mt.Krum(1).aggregate(np.full((6, 2), np.nan), on_fault="skip").summary()
    assert skipped["skipped"] and skipped["weights"] is skipped["selected"] is skipped["scores"] is None


@pytest.mark.parametrize(("worker", "shown"), [(None, "row 4: late"), (4, "row 4: late"), ("x", "row 4 (x): late")])
def test_a_fault_names_its_worker_where_the_name_says_more_than_the_row(worker: object, shown: str) -> None:
    assert str(mt.rules.aggregation.Quarantined(4, worker, "late")) == shown


def test_the_same_with_another_update() -> None:
    result = mt.Krum(1).aggregate(ROWS)
    other = result.with_update("elsewhere")
    assert other.update == "elsewhere" and result.update == 1.0
    assert all(vars(other)[name] is value for name, value in vars(result).items() if name != "update")


def test_the_facts_of_rows_in_another_order_are_told_of_the_rows_as_received() -> None:
    """A rule that reorders its rows before it combines them."""

    class Backwards(mt.Mean):
        def decide(self, updates):  # type: ignore[no-untyped-def]  # as users write it
            return updates.take([5, 4, 3, 2, 1, 0]).row(1)

    assert Backwards().aggregate(ROWS).weights.tolist() == [0, 0, 0, 0, 1, 0]  # type: ignore[union-attr]  # there are weights
