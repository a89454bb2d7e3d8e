"""Bulyan: who is picked, in which order, and what the second phase makes of it."""

from dataclasses import dataclass
from typing import ClassVar

import naive
import numpy as np
import pytest

from mixtailor.rules import Bulyan, Comed, GeometricMedian, Krum, Mean, Medoid, MultiKrum, TrimmedMean
from mixtailor.rules.base import Rule
from mixtailor.updates import Point, Updates


@dataclass(frozen=True)
class Last(Rule):
    """The last row, or half of it."""

    share: float = 1.0

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "nothing"

    def min_rows(self) -> int:
        return 1

    def decide(self, updates: Updates) -> Point:
        weights = np.zeros(updates.n)
        weights[-1] = self.share
        return updates.combine(weights)


def test_by_hand() -> None:
    """Krum picks 10, 2, 12, 1 and 11, with four to one neighbours; around their median, 10, three values stay."""
    rows = np.array([[10.0], [0.0], [11.0], [1.0], [12.0], [2.0], [14.0]])
    result = Bulyan(f=1).aggregate(rows)
    assert result.selected == tuple(naive.bulyan_rows(rows, 1)) == (0, 5, 4, 3, 2)
    np.testing.assert_array_equal(result.update, [11.0])


def test_requirement() -> None:
    """4f + 3 rows suffice and 4f + 2 do not."""
    rows = np.arange(11.0)[:, None]
    np.testing.assert_allclose(Bulyan(f=2)(rows), naive.bulyan(rows, 2))
    with pytest.raises(ValueError, match=r"Bulyan\(f=2\) needs at least 11 rows \(n >= 4f \+ 3\) and got 10"):
        Bulyan(f=2)(rows[:10])


def test_a_selection_that_returns_one_row_is_that_pick() -> None:
    """Also where other rows equal it; half a row is none, and the row nearest to it is taken instead."""
    assert Bulyan(1, selection=Last()).aggregate(np.ones((7, 2))).selected == (6, 5, 4, 3, 2)
    rows = np.array([[4.0], [9.0], [1.0], [7.0], [6.0], [2.0], [8.2]])
    assert Bulyan(1, selection=Last(0.5)).aggregate(rows).selected == (0, 4, 5, 3, 2)


@pytest.mark.parametrize("selection", [Krum(2, p=1), Medoid(), Medoid(p=3), Comed(), GeometricMedian()], ids=repr)
@pytest.mark.parametrize("then", [None, Mean(), Comed()], ids=repr)
def test_phases_are_told(selection: Rule, then: Rule | None) -> None:
    """The picks are those of the selection run by hand, and the result is the second rule's on them."""
    rows = np.random.default_rng(1).normal(size=(11, 6))
    p = float(getattr(selection, "p", 2.0))

    def choose(left: np.ndarray, f: int) -> "int | np.ndarray":
        return naive.krum_pick(left, f, p) if isinstance(selection, Krum) else selection(left)

    picks = naive.bulyan_rows(rows, 2, choose, p)
    result = Bulyan(2, selection=selection, then=then).aggregate(rows)
    assert result.selected == tuple(picks) and result.scores is None
    expected = naive.meamed(rows[picks], 4) if then is None else then(rows[picks])
    np.testing.assert_allclose(result.update, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("selection", [None, Mean(), Comed(), GeometricMedian(), Medoid()], ids=repr)
def test_one_far_row_does_not_let_the_order_decide(selection: Rule | None, dtype: type) -> None:
    """At 1e30 it takes a mean along, from which all other rows are equally far, to all digits of a distance."""
    rule = Bulyan(2, selection=selection)
    for seed in range(25):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(11, 6)).astype(dtype)
        rows[0] = 1e30 * np.sign(rng.normal(size=6))
        np.testing.assert_allclose(rule(rng.permutation(rows)), rule(rows), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("selection", [None, Mean(), Comed(), GeometricMedian(), Medoid()], ids=repr)
def test_two_far_rows_that_cancel_let_the_order_decide_only_where_that_is_declared(selection: Rule | None) -> None:
    """They leave the mean where it is, and of its products with the other rows no digit."""
    rule, differ = Bulyan(2, selection=selection), 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(13, 6)).astype(np.float32)
        rows[0], rows[1] = 1e30, -1e30
        differ += not np.allclose(rule(rng.permutation(rows)), rule(rows), rtol=1e-5, atol=1e-6)
    assert ("permutation" in rule.missing_laws()) == (differ > 0)


def test_where_the_order_may_decide_is_declared() -> None:
    """With the mean, in all norms, and with selections that few rows leave undecided."""
    for rule in (Bulyan(2, selection=Mean()), Bulyan(2, selection=Mean(), p=3), Bulyan(2, selection=MultiKrum(2))):
        assert "equally close" in rule.missing_laws()["permutation"]
    for rule in (
        Bulyan(2),
        Bulyan(2, p=3),
        Bulyan(2, selection=GeometricMedian(p=3)),
        Bulyan(2, selection=TrimmedMean(2)),
    ):
        assert not rule.missing_laws()
