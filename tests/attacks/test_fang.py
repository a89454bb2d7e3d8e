"""Directed deviation, against Krum and against the trimmed mean and the median."""

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import FangKrum, FangTrimmedMean
from mixtailor.attacks.fang_krum import largest_step
from mixtailor.intake import receive
from mixtailor.updates import Updates


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("m", "f", "p"), [(10, 2, 2.0), (9, 3, 2.0), (10, 2, 3.0), (20, 5, 2.0)])
def test_krum_chooses_it(seed, m, f, p) -> None:
    """The row that Krum returns is a Byzantine one, and is a step against the signs of Krum's honest answer."""
    honest = rows(m, 200, seed=seed)
    krum = mt.Krum(f, p=p)
    crafted = FangKrum(target=krum)
    made = crafted.craft(honest, f)
    result = krum.aggregate(np.vstack([honest, made.rows]))
    assert made.facts["chosen"] and result.selected[0] >= m
    step = made.facts["size"]
    np.testing.assert_allclose(made.rows[0], -step * np.sign(krum(honest)), rtol=1e-9)


def test_own_rows_take_part_in_the_honest_answer() -> None:
    """The signs are those of the answer without an attack, on own and honest rows together."""
    honest, own = rows(), rows(2, seed=3)
    made = FangKrum()(honest, 2, own=own)
    np.testing.assert_array_equal(np.sign(made[0]), -np.sign(mt.Krum(2)(np.vstack([honest, own]))))


def test_the_bound_by_hand() -> None:
    """Three honest rows on a line, n = 5, f = 1: two neighbours each, the least sum is 1 + 1."""
    honest = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0]])
    assert largest_step(Updates.arrived(receive(honest)), 5, 1) == pytest.approx((2 / 2 + 9) / 2)


def test_a_closer_search_goes_further() -> None:
    """Bisection between the refused and the chosen step never shortens it."""
    honest = rows(d=200)
    plain, closer = (FangKrum(budget=budget).craft(honest, 2) for budget in (0, 12))
    assert closer.facts["size"] >= plain.facts["size"]
    assert mt.Krum(2).aggregate(np.vstack([honest, closer.rows])).selected[0] >= 10


def test_beyond_all_honest_rows() -> None:
    """Below the least value where the mean is positive, above the largest where it is negative, within a factor b."""
    honest = rows(d=400)
    made = FangTrimmedMean(b=3.0)(honest, 2, rng=0)
    up = honest.mean(axis=0) >= 0
    low, high = honest.min(axis=0), honest.max(axis=0)
    assert (made[:, up] <= low[up]).all() and (made[:, ~up] >= high[~up]).all()
    furthest_low = np.where(low > 0, low / 3, low * 3)
    furthest_high = np.where(high > 0, high * 3, high / 3)
    assert (made[:, up] >= furthest_low[up]).all() and (made[:, ~up] <= furthest_high[~up]).all()
    assert not np.array_equal(made[0], made[1])


@pytest.mark.parametrize("rule", [mt.Comed(), mt.TrimmedMean(2)], ids=repr)
def test_it_moves_its_targets_against_the_mean(rule) -> None:
    """The answer moves against the signs of the honest mean, in every coordinate that moves."""
    honest = rows(d=400)
    own = rows(2, 400, seed=9)
    before = rule(np.vstack([honest, own]))
    after = rule(np.vstack([honest, FangTrimmedMean(target=rule)(honest, 2, own=own, rng=0)]))
    assert ((after - before) * np.sign(before) <= 1e-12).all() and (after != before).mean() > 0.5


def test_wrong_arguments() -> None:
    """b is above 1; the target's requirement is checked on n."""
    with pytest.raises(ValueError, match="b > 1"):
        FangTrimmedMean(b=1.0)
    with pytest.raises(ValueError, match=r"Krum\(f=3\) needs at least 9 rows \(n >= 2f \+ 3\) and got 7"):
        FangKrum(target=mt.Krum(3))(rows(5), 2)


def test_as_many_liars_as_krum_cannot_have() -> None:
    """Five of twelve are more than Krum allows; the attack is made for the Krum that n does allow, which follows."""
    honest = rows(7, 400)
    made = FangKrum().craft(honest, 5, rng=0)
    assert np.array_equal(mt.Krum(4)(np.vstack([honest, made.rows])), made.rows[0])
