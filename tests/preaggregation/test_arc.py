"""ARC."""

import itertools

import naive
import numpy as np
import pytest
from attacked import FAR, attacked, seen
from numpy.typing import NDArray

from mixtailor.preaggregation import ARC, NNM
from mixtailor.rules import Comed, GeometricMedian, Krum, Mean


def test_by_hand() -> None:
    """n = 5 and f = 1: k = floor(2/5 * 4) = 1, so that 9 becomes 4, the second largest length."""
    rows = np.array([[1.0], [-2.0], [3.0], [4.0], [-9.0]])
    np.testing.assert_allclose(ARC(f=1).prepare(seen(rows)).matrix(), [[1.0], [-2.0], [3.0], [4.0], [-4.0]])


@pytest.mark.parametrize(
    ("n", "f", "k"), [(10, 0, 0), (10, 1, 1), (10, 2, 3), (10, 3, 4), (10, 4, 4), (3, 1, 1), (15, 5, 6)]
)
def test_how_many_are_clipped(n: int, f: int, k: int) -> None:
    """k = floor(2 f (n - f) / n), in whole numbers: 2 * 5 / 15 * 10 is 6.67."""
    rows = np.arange(1.0, n + 1)[:, None]
    mixed = ARC(f=f).prepare(seen(rows)).matrix()
    assert (mixed < rows).sum() == k
    assert mixed.max() == n - k


def test_requirement() -> None:
    """2f + 1 rows suffice and 2f do not; n and f stay for the rule behind."""
    assert ARC(f=2).after(12, 2) == (12, 2)
    assert ARC(f=2).prepare(seen(np.eye(5))).n == 5
    with pytest.raises(ValueError, match=r"ARC\(f=2\) needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        ARC(f=2).prepare(seen(np.eye(4)))


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_the_oracle(seed: int) -> None:
    """Rows, and the distances between them, which come from n-space."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(int(random.integers(2, 20)), 30)) + random.choice([0.0, 3.0])
    f = int(random.integers(0, (len(rows) - 1) // 2 + 1))
    view = ARC(f=f).prepare(seen(rows))
    expected = naive.arc(rows, f)
    np.testing.assert_allclose(view.matrix(), expected, rtol=1e-12)
    np.testing.assert_allclose(view.distances(), naive.distances(expected).astype(float), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("far", FAR)
def test_far_rows_cost_no_digits(far: float) -> None:
    """Far rows come out at an honest length, in the result and in the geometry."""
    rows = attacked(far, outliers=3).astype(np.float64)
    clipped = naive.arc(rows, 3)
    assert np.linalg.norm((ARC(f=3) >> Mean())(rows) - naive.mean(clipped)) < 1e-6
    assert np.linalg.norm((ARC(f=3) >> Krum(f=3))(rows) - naive.krum(clipped, 3)) < 1e-6
    median = (ARC(f=3) >> GeometricMedian(tolerance=1e-9))(rows)
    assert np.linalg.norm(median - naive.geometric_median(clipped)) < 1e-6


def test_scaling_all_rows_scales_the_answer() -> None:
    """The radius is one of the lengths, so that units do not matter."""
    rows = attacked(30.0, outliers=2, dtype=np.float64)
    rule = ARC(f=2) >> Comed()
    np.testing.assert_allclose(rule(rows * 2.0**40), rule(rows) * 2.0**40, rtol=1e-12)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """Its length is no number: it leaves, and one less is clipped."""
    rows = attacked(2.0, dtype=np.float64)
    rows[4, 7] = np.nan
    result = (ARC(f=2) >> Comed()).aggregate(rows)
    assert np.isfinite(result.update).all()
    assert [fault.row for fault in result.quarantined] == [4]


def test_coefficient() -> None:
    """kappa + 2f / (n - 2f), also with NNM between, and none where the rule has none."""
    inner = Comed().kappa(12, 2, 5)
    assert inner is not None
    assert (ARC(f=2) >> Comed()).kappa(12, 2, 5) == pytest.approx(inner + 4 / 8)
    mixed = (NNM(f=2) >> Comed()).kappa(12, 2, 5)
    assert mixed is not None
    assert (ARC(f=2) >> NNM(f=2) >> Comed()).kappa(12, 2, 5) == pytest.approx(mixed + 4 / 8)
    assert (ARC(f=2) >> Mean()).kappa(12, 2, 5) is None
    assert (ARC(f=2) >> Comed()).kappa(4, 2, 5) is None, "half of the rows"


def excess(rows: NDArray[np.float64], f: int) -> float:
    """The worst squared error of ARC >> Comed over the subsets that could be honest, in units of their variance."""
    answer = (ARC(f=f) >> Comed())(rows)
    worst = 0.0
    for chosen in itertools.combinations(range(len(rows)), len(rows) - f):
        honest = rows[list(chosen)]
        centre = honest.mean(axis=0)
        worst = max(worst, float(((answer - centre) ** 2).sum() / ((honest - centre) ** 2).sum(axis=1).mean()))
    return worst


@pytest.mark.parametrize(("n", "f"), [(3, 1), (5, 2)])
def test_a_search_that_climbs_stays_below_the_coefficient(n: int, f: int) -> None:
    """And comes more than a fifth of the way to it, so that the bound is not idle."""
    bound = (ARC(f=f) >> Comed()).kappa(n, f, 2)
    assert bound is not None
    random = np.random.default_rng(n)
    found = 0.0
    for _ in range(3):
        rows, step = random.normal(size=(n, 2)), 1.0
        best = excess(rows, f)
        for _ in range(150):
            tried = rows + step * random.normal(size=rows.shape) * (random.random(rows.shape) < 0.4)
            value = excess(tried, f)
            rows, best, step = (tried, value, step * 1.3) if value > best else (rows, best, max(step * 0.97, 1e-3))
        found = max(found, best)
    assert 0.2 * bound < found <= bound
