"""What a caller says about one call."""

import dataclasses
import typing

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.rules.promises import NEVER, check_tolerates
from mixtailor.rules.request import Request, RequestKeywords

ROWS = np.random.default_rng(5).normal(size=(5, 4))


def test_keywords_and_fields_are_the_same() -> None:
    """What type checkers know of a call is what a request holds."""
    keywords = typing.get_type_hints(RequestKeywords)
    assert keywords == typing.get_type_hints(Request)
    assert RequestKeywords.__required_keys__ == frozenset(), "everything has a default"
    assert all(item.default is not dataclasses.MISSING for item in dataclasses.fields(Request))


def test_a_request_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Request().round = 3  # type: ignore[misc]  # frozen: wrong on purpose


@pytest.mark.parametrize("call", [mt.Comed(), mt.Comed().aggregate], ids=["call", "aggregate"])
def test_wrong_keywords_are_named(call) -> None:
    with pytest.raises(TypeError, match=r"takes no argument 'referenc'\. Did you mean 'reference'\?"):
        call(ROWS, referenc=ROWS[0])
    with pytest.raises(TypeError, match=r"takes no argument 'x'\. Known are cap, entropy, honest, on_fault"):
        call(ROWS, x=1)
    with pytest.raises(ValueError, match="on_fault needs to be 'raise' or 'skip' and is 'ignore'"):
        call(ROWS, on_fault="ignore")
    with pytest.raises(ValueError, match="one name for each of the 5 updates and got 0"):
        call(ROWS, workers=[])
    with pytest.raises(TypeError):
        call(ROWS, ["a"] * 5)


def test_a_small_call_stays_small() -> None:
    """Seven Python calls in rules/: the call, whether torch traces it, receiving, `min_rows`, `plan`, the loop over
    faults, and `decide`."""
    import sys

    rule, found = mt.Comed(), []
    rule(ROWS)

    def count(frame, event, _argument) -> None:
        if event == "call" and "/mixtailor/rules/" in frame.f_code.co_filename.replace("\\", "/"):
            found.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        rule(ROWS)
    finally:
        sys.setprofile(None)
    assert len(found) <= 7, found


@pytest.mark.parametrize("workers", [12, iter(["a", "b", "c"]), {"a", "b", "c"}, "abc"])
def test_names_are_a_list(workers):
    """A set has an order of its own, so that faults would have other names than those who sent them."""
    with pytest.raises(TypeError, match="workers= needs a list of names"):
        mt.Comed()(np.ones((3, 2)), workers=workers)


def test_a_rule_that_never_tolerates_f_is_told_without_a_number_of_updates():
    with pytest.raises(ValueError, match=r"Mean\(\) tolerates no Byzantine update, and f = 1\. More updates"):
        check_tolerates(mt.Mean(), 1, NEVER)
