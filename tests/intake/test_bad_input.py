"""What cannot be aggregated gets one sentence: what is needed and what arrived."""

import re

import numpy as np
import pytest
import torch

import mixtailor as mt

NOTHING = np.empty((0, 3))


@pytest.mark.parametrize(
    ("sent", "kind", "sentence"),
    [
        ([], ValueError, "at least one row and got none"),
        ((), ValueError, "at least one row and got none"),
        (NOTHING, ValueError, r"at least one row and got none \(shape \(0, 3\)\)"),
        (torch.empty(0, 3), ValueError, r"at least one row and got none \(shape \(0, 3\)\)"),
        (iter([]), ValueError, "at least one row and got none"),
        ([{}, {}], ValueError, "at least one array in every row and hold none"),
        ([[], []], ValueError, "at least one array in every row and hold none"),
        (np.zeros(4), ValueError, r"an \(n, d\) array, and got shape \(4,\)"),
        (np.float64(3.0), ValueError, r"an \(n, d\) array, and got shape \(\)"),
        ([1.0, 2.0], ValueError, "flat list of numbers"),
        ("updates", ValueError, "single path or string, 'updates'. Give a list"),
        (b"updates", ValueError, "single path or string"),
        ({"a": np.zeros(3)}, ValueError, "got a single mapping. Give a list of n state dicts"),
        (None, TypeError, "got NoneType"),
        (3, TypeError, "got int"),
        (np.array([["a", "b"]]), TypeError, r"an \(n, d\) array of real numbers, and this one is of text"),
        (np.array([[None, 1.0]]), TypeError, "this one is of Python objects"),
        (np.array([None, 1.0]), TypeError, "this one is of Python objects"),
        (np.zeros((2, 3), complex), TypeError, "this one is of complex numbers"),
        (torch.zeros((2, 3), dtype=torch.complex64), TypeError, "this one is of complex numbers"),
        (np.zeros((2, 3), "datetime64[s]"), TypeError, "this one is of dates"),
        (np.zeros((2, 3), "f4,f4"), TypeError, "this one is of "),
        (np.ma.zeros((2, 3)), TypeError, "a masked array"),
        (torch.zeros(2, 3).to_sparse(), TypeError, "dense tensors are needed"),
        ([None, None], TypeError, r"in every row, and row 0 is not an update \(it holds None"),
        ([np.zeros(3, complex)] * 2, TypeError, "in every row, and row 0 is of complex numbers"),
        ([np.zeros(3), np.zeros(4)], ValueError, r"1 of 2 have each of two: update 1 is of shape \(4,\)"),
        ([np.zeros(3), [np.zeros(3)]], ValueError, "1 of 2 have each of two"),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", repr(value)),  # an address would differ from process to process
)
def test_sentence(sent, kind, sentence) -> None:
    """A sentence, before anything is computed."""
    with pytest.raises(kind, match=sentence):
        mt.Mean()(sent)


def test_rows_of_different_length() -> None:
    """The row that differs from most is named, and leaves where f allows it."""
    x = [np.ones(4), np.ones(4), np.ones(5), np.ones(4)]
    with pytest.raises(
        mt.FaultError, match=r"1 of 4 updates is of shape \(5,\) where most have \(4,\) .* tolerates none"
    ):
        mt.Mean()(x)
    result = mt.Comed().aggregate(x)
    assert result.update.tolist() == [1.0] * 4 and [q.row for q in result.quarantined] == [2]


def test_one_row() -> None:
    """One row is its own mean, and too few for Krum."""
    assert mt.Mean()(np.ones((1, 3))).tolist() == [1.0] * 3
    with pytest.raises(ValueError, match=r"needs at least 5 rows \(n >= 2f \+ 3\) and got 1"):
        mt.Krum(1)(np.ones((1, 3)))


def test_any_iterable() -> None:
    """A generator, or the values of a dict, is a list of rows."""
    rows = {"one": np.ones(3), "two": 3 * np.ones(3)}
    assert mt.Mean()(rows.values()).tolist() == mt.Mean()(row for row in rows.values()).tolist() == [2.0] * 3


def test_the_input_is_never_written_to() -> None:
    """Read-only memory is fine, and the result is not a view of it."""
    x = np.arange(15.0).reshape(5, 3)
    x.setflags(write=False)
    for sent in (x, list(x), [{"a": row} for row in x]):
        answer = mt.Krum(1)(sent)
        answer = answer["a"] if isinstance(answer, dict) else answer
        assert answer.flags.writeable and not np.shares_memory(answer, x)
