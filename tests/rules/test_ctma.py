"""CTMA."""

import naive
import numpy as np
import pytest
from attacked import attacked

import mixtailor as mt
from mixtailor.rules import CTMA, Comed, GeometricMedian, Krum, Meamed, Mean


def test_by_hand() -> None:
    """Around the median 3 of 0, 2, 3, 7, 90, the four nearest are all but 90; two fewer leave 2, 3 and 0."""
    rows = np.array([[0.0], [2.0], [3.0], [7.0], [90.0]])
    result = CTMA(f=1, rule=Comed()).aggregate(rows)
    np.testing.assert_array_equal(result.update, [3.0])
    assert result.selected == (0, 1, 2, 3)
    np.testing.assert_array_equal(result.scores, [3.0, 1.0, 0.0, 4.0, 87.0])
    np.testing.assert_allclose(CTMA(f=2, rule=Comed())(rows), [5 / 3])


@pytest.mark.parametrize("rule", [Comed(), GeometricMedian(), Krum(2), mt.NNM(2) >> Comed()], ids=repr)
def test_the_mean_of_the_nearest_against_the_slow_twin(rule) -> None:
    """Whatever the rule is: its own result is the centre."""
    rows = attacked(1e4, n=11)
    np.testing.assert_allclose(CTMA(f=2, rule=rule)(rows), naive.monna(rows, 2, rule(rows)), rtol=1e-5)


def test_in_one_coordinate_it_is_meamed() -> None:
    """Around the median."""
    rows = np.random.default_rng(0).normal(size=(11, 1))
    np.testing.assert_allclose(CTMA(f=3, rule=Comed())(rows), Meamed(f=3)(rows))


def test_requirement() -> None:
    """2f + 1 rows, or what the rule needs, whichever is more; and the rule must tolerate as many."""
    rows = np.arange(7.0)[:, None]
    assert np.isfinite(CTMA(f=2)(rows[:5])).all()
    with pytest.raises(ValueError, match=r"needs at least 5 rows \(n >= 2f \+ 1\) and got 4"):
        CTMA(f=2)(rows[:4])
    with pytest.raises(ValueError, match=r"needs at least 7 rows \(n >= 2f \+ 3\) and got 6"):
        CTMA(f=2, rule=Krum(2))(rows[:6])
    with pytest.raises(ValueError, match=r"tolerates as many updates and got Krum\(f=1\)"):
        CTMA(f=2, rule=Krum(1))


def test_a_mixture_inside_is_drawn_once() -> None:
    """The report names what was drawn."""
    result = CTMA(f=1, rule=mt.MixTailor([Krum(1), Comed()])).aggregate(np.arange(14.0).reshape(7, 2))
    assert result.rule in (CTMA(f=1, rule=Krum(1)), CTMA(f=1, rule=Comed()))


def test_coefficient() -> None:
    """4 f / (n - f) (1 + kappa), and none around a rule that has none; f is lowered inside, too."""
    assert CTMA(f=2, rule=Krum(2)).kappa(12, 2, 5) == pytest.approx(4 * 2 / 10 * (1 + 7.5))
    assert CTMA(f=2, rule=Mean()).kappa(12, 2, 5) is None
    assert CTMA(f=2, rule=Krum(2)).with_f(1) == CTMA(f=1, rule=Krum(1))
