"""Tailored and RandomEpsilon."""

import numpy as np
import pytest
from attacks.instances import rows

from mixtailor.attacks import RandomEpsilon, Tailored


def test_by_hand() -> None:
    """Exactly minus epsilon times the mean; the published code's scale is m / f times longer."""
    honest = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0], [7.0, 1.0]])
    np.testing.assert_array_equal(Tailored(0.5)(honest, 2), [[-2.0, -2.0]] * 2)
    np.testing.assert_array_equal(Tailored(0.5, scale="sum/f")(honest, 2), [[-4.0, -4.0]] * 2)


def test_five_times_at_the_papers_size() -> None:
    """At n = 12, f = 2 the two scales differ by five."""
    honest = rows()
    np.testing.assert_allclose(Tailored(0.1, scale="sum/f")(honest, 2), 5 * Tailored(0.1)(honest, 2))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 10.0])
def test_against_the_mean(epsilon) -> None:
    """The inner product with the honest mean is negative: a published attack has this sign wrong, and helps."""
    honest = rows()
    assert Tailored(epsilon)(honest, 1)[0] @ honest.mean(axis=0) < 0


def test_random_epsilon_draws_from_its_set() -> None:
    """Every epsilon comes up, no other, and the same for all f rows of a round."""
    honest, found = rows(), set()
    for seed in range(30):
        made = RandomEpsilon((0.1, 10.0, 3.0))(honest, 2, rng=seed)
        assert (made[0] == made[1]).all()
        found.add(round(float(-made[0, 0] / honest[:, 0].mean()), 6))
    assert found == {0.1, 10.0, 3.0}


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf")])
def test_epsilon_is_above_zero(epsilon) -> None:
    """At construction."""
    with pytest.raises(ValueError, match="epsilon > 0"):
        Tailored(epsilon)
    with pytest.raises(ValueError, match="epsilon > 0"):
        RandomEpsilon((0.1, epsilon))


def test_wrong_arguments() -> None:
    """An unknown scale, an empty set."""
    with pytest.raises(ValueError, match="scale='mean'"):
        Tailored(scale="sum")
    with pytest.raises(ValueError, match="at least one number"):
        RandomEpsilon(())
