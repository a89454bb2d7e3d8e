"""A Little Is Enough."""

from statistics import NormalDist

import numpy as np
import pytest
from attacks.instances import rows

from mixtailor.attacks import ALIE, Oblivious
from mixtailor.attacks.alie import largest_z


def test_by_hand() -> None:
    """Mean 2, deviation 1 over n and sqrt(2) over n - 1."""
    honest = np.array([[1.0, 5.0], [3.0, 5.0]])
    np.testing.assert_array_equal(ALIE(z=1.5)(honest, 1), [[0.5, 5.0]])
    np.testing.assert_allclose(ALIE(z=1.5, ddof=1)(honest, 1), [[2 - 1.5 * np.sqrt(2), 5.0]])


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_against_numpy(ddof, offset) -> None:
    """Deviations of numbers that are nearly equal keep their digits."""
    honest = rows(d=3000) + offset
    wanted = honest.mean(axis=0) - 2.0 * honest.std(axis=0, ddof=ddof)
    np.testing.assert_allclose(ALIE(z=2.0, ddof=ddof)(honest, 3), [wanted] * 3, rtol=1e-9)


def test_z_by_hand() -> None:
    """n = 50, f = 24: s = 2, and 24 of 26 honest workers stay above; at n = 12, f = 2 it is the median, z = 0."""
    assert largest_z(50, 24) == pytest.approx(NormalDist().inv_cdf(24 / 26))
    assert largest_z(12, 2) == 0.0
    assert largest_z(10, 1) < 0
    assert largest_z(7, 4) == float("inf") and largest_z(2, 1) == -float("inf")


def test_formula_without_effect_warns() -> None:
    """At n = 12, f = 2 the formula sends the mean."""
    honest = rows()
    with pytest.warns(UserWarning, match=r"z = 0 at n = 12, f = 2, which is no attack"):
        made = ALIE()(honest, 2)
    np.testing.assert_allclose(made, [honest.mean(axis=0)] * 2, atol=1e-12)


def test_formula_is_used() -> None:
    """n = 12, f = 4: s = 3 and z = inv_cdf(5/8)."""
    honest = rows(8)
    wanted = honest.mean(axis=0) - NormalDist().inv_cdf(5 / 8) * honest.std(axis=0)
    np.testing.assert_allclose(ALIE()(honest, 4)[0], wanted, rtol=1e-9)


def test_from_own_rows_alone() -> None:
    """The paper's attacker estimates from its own workers."""
    honest, own = rows(), rows(4, seed=5)
    made = (Oblivious() | ALIE(z=1.0))(honest, 4, own=own)
    np.testing.assert_allclose(made[0], own.mean(axis=0) - own.std(axis=0), rtol=1e-9)


def test_wrong_arguments() -> None:
    """z is above 0."""
    with pytest.raises(ValueError, match="z > 0"):
        ALIE(z=-1.0)
    with pytest.raises(TypeError, match="z as a number"):
        ALIE(z="1")
