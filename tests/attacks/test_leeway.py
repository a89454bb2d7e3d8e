"""One coordinate."""

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import Leeway


def test_only_one_coordinate_is_off() -> None:
    """All others are the honest mean's, and the size is against its sign."""
    honest = rows()
    made = Leeway(coordinate=7)(honest, 2)
    off = made[0] - honest.mean(axis=0)
    assert np.abs(np.delete(off, 7)).max() < 1e-9 and off[7] * honest[:, 7].mean() < 0


@pytest.mark.parametrize("p", [2.0, 4.0])
def test_the_largest_that_krum_follows(p) -> None:
    """Krum returns the row, and with a slightly larger one it does not."""
    honest = rows(d=200)
    krum = mt.Krum(2, p=p)
    made = Leeway(target=krum)(honest, 2)
    assert krum.aggregate(np.vstack([honest, made])).selected[0] >= 10
    further = made.copy()
    further[:, 0] += 0.01 * (made[0, 0] - honest[:, 0].mean())
    assert krum.aggregate(np.vstack([honest, further])).selected[0] < 10


def test_leeway_grows_with_the_dimension() -> None:
    """As sqrt(d) for p = 2: sixteen times the coordinates, about four times the leeway."""
    sizes = [Leeway().craft(rows(d=d), 2).facts["size"] for d in (250, 4000)]
    assert 3 < sizes[1] / sizes[0] < 5


def test_bulyan_leaves_less() -> None:
    """Bulyan was made against this: what it follows is no larger than the honest rows' own spread."""
    honest = rows(d=4000)
    assert Leeway(target=mt.Bulyan(2)).craft(honest, 2).facts["size"] < Leeway().craft(honest, 2).facts["size"] / 10


def test_wrong_arguments() -> None:
    """The coordinate exists."""
    with pytest.raises(ValueError, match="coordinate below d = 60"):
        Leeway(coordinate=60)(rows(), 2)
