"""TwinOutliers and Decoy: what an average inside Bulyan costs."""

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import Decoy, TwinOutliers

FAR = (1e3, 1e6, 1e9, 1e12)
HONEST = rows()


def moved(rule, attack, f=2, honest=HONEST):
    answer = rule(np.vstack([honest, attack(honest, f)]))
    return np.linalg.norm(answer - honest.mean(axis=0))


@pytest.mark.parametrize(("m", "f"), [(10, 2), (13, 3), (17, 4)])
def test_twins_move_a_mean_without_bound(m, f) -> None:
    """As the distance grows, so does the answer, in proportion; the mean around the median stays."""
    honest = rows(m)
    spread = np.linalg.norm(honest[0] - honest[1])
    answers = [moved(mt.Bulyan(f, then=mt.Mean()), TwinOutliers(distance=D), f, honest) for D in FAR]
    ratios = np.array(answers) / np.array(FAR)
    assert (ratios > 0.5 * ratios[-1]).all() and answers[-1] > 1e10
    assert max(moved(mt.Bulyan(f), TwinOutliers(distance=D), f, honest) for D in FAR) < spread


def test_a_decoy_moves_a_mean_without_bound() -> None:
    """With the average in both phases; Krum in the first or the median in the second withstand it."""
    answers = [moved(mt.Bulyan(2, selection=mt.Mean(), then=mt.Mean()), Decoy(distance=D)) for D in FAR]
    ratios = np.array(answers) / np.array(FAR)
    assert (ratios > 0.5 * ratios[-1]).all() and answers[-1] > 1e9
    spread = np.linalg.norm(HONEST[0] - HONEST[1])
    for rule in (mt.Bulyan(2), mt.Bulyan(2, selection=mt.Mean()), mt.Bulyan(2, selection=mt.Mean(), then=mt.Comed())):
        assert max(moved(rule, Decoy(distance=D)) for D in FAR) < spread


def test_the_decoy_lies_on_the_average() -> None:
    """Of all n rows, itself included."""
    for f in (2, 4):
        made = Decoy(distance=100.0)(HONEST, f)
        np.testing.assert_allclose(np.vstack([HONEST, made]).mean(axis=0), made[-1], rtol=1e-9)


def test_twins_by_hand() -> None:
    """Mean (2, 0), spread 2, distance 3: six to the left of the mean."""
    honest = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]])
    made = TwinOutliers(distance=3.0)(np.vstack([honest, [[2.0, 0.0]]]), 2)
    spread = 1.0  # distances 2, 1, 1, 1, 1, 0
    np.testing.assert_allclose(made, [[2.0 - 3.0 * spread, 0.0]] * 2)


@pytest.mark.parametrize("kind", [TwinOutliers, Decoy])
def test_one_worker_is_not_enough(kind) -> None:
    """Twins are two."""
    with pytest.raises(ValueError, match="needs f >= 2"):
        kind()(HONEST, 1)
    with pytest.raises(ValueError, match="distance > 0"):
        kind(distance=0.0)
