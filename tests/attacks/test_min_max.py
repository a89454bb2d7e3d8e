"""Min-Max and Min-Sum against their definitions."""

import numpy as np
import pytest
from attacks.instances import rows

from mixtailor.attacks import MinMax, MinSum

DIRECTIONS = ("unit", "deviation", "sign")


def direction_of(honest, name):
    mean = honest.mean(axis=0)
    return {"unit": -mean / np.linalg.norm(mean), "deviation": -honest.std(axis=0, ddof=1), "sign": -np.sign(mean)}[
        name
    ]


@pytest.mark.parametrize("name", DIRECTIONS)
def test_min_max_touches_its_bound(name) -> None:
    """On the line, the largest distance is exactly the honest rows' largest, and a little further it is more."""
    honest = rows()
    row = MinMax(direction=name)(honest, 2)[0]
    v = direction_of(honest, name)
    gamma = (row - honest.mean(axis=0)) @ v / (v @ v)
    np.testing.assert_allclose(row, honest.mean(axis=0) + gamma * v, atol=1e-9)
    reach = max(np.linalg.norm(a - b) for a in honest for b in honest)
    assert gamma > 0 and max(np.linalg.norm(honest - row, axis=1)) == pytest.approx(reach, rel=1e-9)
    assert max(np.linalg.norm(honest - row - 1e-6 * gamma * v, axis=1)) > reach


@pytest.mark.parametrize("name", DIRECTIONS)
def test_min_sum_touches_its_bound(name) -> None:
    """The sum of squared distances is exactly the honest rows' largest."""
    honest = rows()
    row = MinSum(direction=name)(honest, 2)[0]
    v = direction_of(honest, name)
    gamma = (row - honest.mean(axis=0)) @ v / (v @ v)
    np.testing.assert_allclose(row, honest.mean(axis=0) + gamma * v, atol=1e-9)
    most = max(((honest - a) ** 2).sum() for a in honest)
    assert gamma > 0 and ((honest - row) ** 2).sum() == pytest.approx(most, rel=1e-9)


@pytest.mark.parametrize("kind", [MinMax, MinSum])
@pytest.mark.parametrize("name", DIRECTIONS)
def test_equal_rows_leave_no_room(kind, name) -> None:
    """Where honest rows do not differ, nothing but their value passes."""
    honest = np.tile([1.0, -2.0, 3.0], (5, 1))
    np.testing.assert_allclose(kind(direction=name)(honest, 2), honest[:2], atol=1e-7)


def test_wrong_direction() -> None:
    """The message lists the three."""
    with pytest.raises(ValueError, match="'unit', 'deviation' or 'sign'"):
        MinMax(direction="std")
