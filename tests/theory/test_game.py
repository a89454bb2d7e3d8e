"""The game's solution, on games whose solution is known."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from mixtailor.theory import payoff, solve


def test_matching_pennies():
    """Value 0, both sides even."""
    game = solve([[1, -1], [-1, 1]])
    assert game.value == pytest.approx(0.0, abs=1e-12)
    assert game.probabilities == pytest.approx((0.5, 0.5)) and game.responses == pytest.approx((0.5, 0.5))


def test_rock_paper_scissors():
    """Value 0, a third each."""
    game = solve([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    assert game.value == pytest.approx(0.0, abs=1e-12)
    assert game.probabilities == pytest.approx([1 / 3] * 3) and game.responses == pytest.approx([1 / 3] * 3)


def test_a_mixed_value_by_hand():
    """[[3, -1], [-2, 1]]: 3p - 2(1 - p) = -p + (1 - p) gives p = 3/7 and v = 1/7; 3q - (1 - q) = 1/7 gives q = 2/7."""
    game = solve([[3.0, -1.0], [-2.0, 1.0]])
    assert game.value == pytest.approx(1 / 7)
    assert game.probabilities == pytest.approx((3 / 7, 4 / 7))
    assert game.responses == pytest.approx((2 / 7, 5 / 7))


def test_rows_and_columns_are_not_confused():
    """One row, two columns: the column player takes the smaller. Two rows, one column: the row player the larger."""
    assert solve([[2.0, -3.0]]).value == -3.0 and solve([[2.0, -3.0]]).responses == (0.0, 1.0)
    assert solve([[2.0], [-3.0]]).value == 2.0 and solve([[2.0], [-3.0]]).probabilities == (1.0, 0.0)


def test_dominated_rows_and_columns_are_not_played():
    """Row 2 is below row 0 everywhere, column 2 above column 0 everywhere."""
    game = solve([[3.0, -1.0, 4.0], [-2.0, 1.0, 0.0], [2.0, -2.0, 3.0]])
    assert game.probabilities[2] == 0.0 and game.responses[2] == 0.0
    assert game.value == pytest.approx(1 / 7)


def test_one_by_one_and_constant():
    """Nothing to choose; and where all payoffs are equal, any mixture has that value."""
    game = solve([[0.25]])
    assert (game.probabilities, game.responses, game.value, game.gap) == ((1.0,), (1.0,), 0.25, 0.0)
    assert solve(np.full((3, 2), -0.5)).value == pytest.approx(-0.5)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e300])
def test_the_solution_does_not_depend_on_the_unit(scale):
    """Payoffs of 1e-12 must not vanish in the solver's tolerance, nor those of 1e300 overflow."""
    game = solve(scale * np.array([[3.0, -1.0], [-2.0, 1.0]]))
    assert game.probabilities == pytest.approx((3 / 7, 4 / 7)) and game.value == pytest.approx(scale / 7)


def test_an_offset_moves_the_value_alone():
    """Adding 10 to every payoff adds 10 to the value."""
    game = solve(np.array([[3.0, -1.0], [-2.0, 1.0]]) + 10.0)
    assert game.value == pytest.approx(10 + 1 / 7) and game.probabilities == pytest.approx((3 / 7, 4 / 7))


@pytest.mark.parametrize("seed", range(8))
def test_no_mixture_found_by_climbing_does_better(seed):
    """Neither side improves on its guarantee by climbing in the space of mixtures, and the two guarantees meet."""
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, size=(int(rng.integers(2, 9)), int(rng.integers(2, 9))))
    game = solve(matrix)
    assert game.gap < 1e-9 and sum(game.probabilities) == pytest.approx(1.0) and min(game.probabilities) >= 0.0
    for guarantee, start in (
        (lambda p: (p @ matrix).min(), np.array(game.probabilities)),
        (lambda q: -(matrix @ q).max(), np.array(game.responses)),
    ):
        best = guarantee(start)
        for _ in range(500):
            tried = np.abs(start + rng.choice([1e-1, 1e-2, 1e-4]) * rng.standard_normal(len(start)))
            assert guarantee(tried / tried.sum()) <= best + 1e-9


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_payoffs_that_are_not_finite_are_refused(broken):
    """A sentence instead of a solver's message."""
    with pytest.raises(ValueError, match="solve needs payoffs as finite numbers, and 1 of 4 are not"):
        solve([[1.0, broken], [0.0, 1.0]])


def test_shapes_and_types_are_refused():
    """A game is a matrix of real numbers."""
    with pytest.raises(ValueError, match="2 axes"):
        solve([1.0, 2.0])
    with pytest.raises(ValueError, match="something along each"):
        solve(np.zeros((0, 3)))
    with pytest.raises(TypeError, match="real numbers"):
        solve([["a", "b"]])


def test_solution_prints_and_becomes_json():
    """A person reads a few lines, a machine reads the fields."""
    game = solve([[1, -1], [-1, 1]])
    assert str(game).startswith("value 0") and "rows     0: 0.5, 1: 0.5" in str(game)
    assert json.loads(json.dumps(asdict(game)))["probabilities"] == [0.5, 0.5]


def test_payoff_by_hand():
    """g = (0, 2). U = g: 1. U = (3, 4): 8 / (2 x 5) = 0.8. U = (1, 1): 2 / (2 x 2) = 0.5. U = 0: 0. U = -5g: -1."""
    g = np.array([0.0, 2.0])
    answers = np.array([[0.0, 2.0], [3.0, 4.0], [1.0, 1.0], [0.0, 0.0], [0.0, -10.0]])
    assert payoff(answers @ g, np.linalg.norm(answers, axis=1), 2.0) == pytest.approx([1.0, 0.8, 0.5, 0.0, -1.0])


def test_length_alone_wins_nothing():
    """An answer a million times too long is worth its cosine; too short is worth less."""
    assert payoff(0.5e6, 1e6, 1.0) == pytest.approx(0.5)
    assert payoff(1e-3, 1e-3, 1.0) == pytest.approx(1e-3)


def test_payoff_survives_extreme_lengths_and_rounding():
    """Norms of 1e200 do not overflow; a product a rounding error above Cauchy and Schwarz stays within [-1, 1]."""
    assert payoff(1e300, 1e200, 1e100) == pytest.approx(1.0)
    assert payoff(-4.0 * (1 + 1e-12), 2.0, 2.0) == -1.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1.0, 1.0, 0.0), r"\|g\| > 0"),
        ((1.0, math.nan, 1.0), "finite update_norms"),
        ((5.0, 1.0, 1.0), "Cauchy and Schwarz"),
        ((0.0, -1.0, 1.0), r"\|U\| >= 0"),
    ],
)
def test_payoff_errors(arguments, sentence):
    """Wrong numbers get a sentence."""
    with pytest.raises(ValueError, match=sentence):
        payoff(*arguments)
