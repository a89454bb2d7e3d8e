"""SignVote."""

import naive
import numpy as np
import pytest

from mixtailor.rules import SignVote


def test_by_hand() -> None:
    """Two against one; zeros abstain; a draw is 0."""
    rows = np.array([[0.1, 0.0, -1.0], [5.0, 0.0, 1.0], [-9e9, -2.0, 0.0]])
    np.testing.assert_array_equal(SignVote()(rows), [1.0, -1.0, 0.0])


def test_one_row_votes_alone() -> None:
    """n >= 1; a denormal has a sign, and minus zero has none."""
    np.testing.assert_array_equal(SignVote()(np.array([[3e-45, -3e-45, -0.0]], np.float32)), [1.0, -1.0, 0.0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_agrees_with_the_oracle(dtype: type) -> None:
    """In every type, which the result keeps."""
    rows = np.random.default_rng(0).integers(-2, 3, size=(8, 700)).astype(dtype)
    answer = SignVote()(rows)
    assert answer.dtype == dtype
    np.testing.assert_array_equal(answer, naive.sign_vote(rows))


def test_a_minority_cannot_turn_a_sign() -> None:
    """Where all honest rows agree, fewer than half of the rows change nothing, whatever they hold."""
    rows = np.full((7, 4), 1e-6, np.float32)
    rows[:3] = -3e38
    np.testing.assert_array_equal(SignVote()(rows), np.ones(4))


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """A NaN row has no vote: one for, one against, and it does not decide."""
    result = SignVote().aggregate(np.array([[1.0], [-1.0], [np.nan]]))
    np.testing.assert_array_equal(result.update, [0.0])
    assert [item.row for item in result.quarantined] == [2]


def test_the_laws_it_lacks_fail() -> None:
    """Neither translation nor scale holds, so declaring them off is no excuse."""
    rows = np.array([[1.0], [2.0], [3.0]])
    assert SignVote()(rows - 5.0) != SignVote()(rows) - 5.0
    assert SignVote()(2 * rows) != 2 * SignVote()(rows)
    assert set(SignVote().missing_laws()) == {"translation", "scale"}
