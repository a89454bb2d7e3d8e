"""Races, bombs, special files and the README's command in short form, and that a broken promise would be found."""

import importlib
import os
from pathlib import Path
from typing import Any

import pytest

from campaigns import _cases
from campaigns._ledger import Tally

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "count"), [("races", 65), ("bombs", 24), ("special", 130), ("readme", 64)])
def test_the_short_form_finds_nothing(name: str, count: int) -> None:
    found = importlib.import_module(f"campaigns.{name}.run").campaign(count, 1)
    assert (found["tried"] >= count, found["failures"]) == (True, [])


def test_a_broken_promise_is_found_and_repeats(tmp_path: Path) -> None:
    def case(folder: Path, index: int, rng: Any, tally: Tally) -> str | None:
        tally.count(kind="any")
        number = int(rng.integers(4))
        if number == 3:
            raise KeyError("no promise")
        return "wrong" if number == 2 else None

    found = _cases.campaign("mine", case, 60, 5, tmp_path / "state.json")
    assert found["failed"] == len(found["failures"]) > 0
    assert {"wrong"} < {failure["what"] for failure in found["failures"]}
    for failure in found["failures"]:
        assert _cases.repeat(case, failure["seed"]) != []
    assert _cases.campaign("mine", case, 60, 5, tmp_path / "state.json")["tried"] == found["tried"]
