"""The campaign of adversarial rows in its short form, what it found, and that it would find it again."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import mixtailor as mt
from campaigns.rows import run, subjects
from campaigns.rows.case import Case
from campaigns.rows.promises import fronts
from mixtailor.mixing import registry


def test_the_short_form_finds_nothing(tmp_path: Path) -> None:
    """Some hundred cases break no promise, and are not tried twice."""
    state = tmp_path / "state.json"
    found = run.campaign(400, 7, state=state)
    assert (found["tried"], found["failed"]) == (400, 0), found["failures"]
    again = run.campaign(400, 7, state=state)
    assert again["tried"] == 400, "a finished campaign is not run again"
    assert json.loads(state.read_text())["through"] == 1


def test_every_exported_rule_has_its_turn() -> None:
    """Whatever is exported is attacked without a list that somebody would have to keep."""
    drawn = [subjects.drawn(np.random.default_rng([0, index])) for index in range(2000)]
    assert {type(rule) for rule in drawn} >= set(registry.own_rules().values())
    assert {type(part) for rule in drawn for part in fronts(rule)} >= set(registry.own_preaggregations().values())


def test_a_state_of_another_seed_is_refused(tmp_path: Path) -> None:
    run.campaign(1, 1, state=tmp_path / "state.json")
    with pytest.raises(ValueError, match="with seed 1, not 'rows' with seed 2"):
        run.campaign(1, 2, state=tmp_path / "state.json")


def test_a_case_repeats_to_the_bit() -> None:
    first, second = Case.of(3, 5), Case.of(3, 5)
    assert repr(first.rule) == repr(second.rule)
    assert first.given.rows.tobytes() == second.given.rows.tobytes()


@dataclasses.dataclass(frozen=True)
class Captured(mt.Krum):
    """A rule that one far row moves, with Krum's promises."""

    def decide(self, updates):
        return updates.mean()


@dataclasses.dataclass(frozen=True)
class Careless(mt.Comed):
    """A rule that writes to what it was given."""

    def decide(self, updates):
        updates.reader.storage.rows[0][:] = 0.0
        return super().decide(updates)


@pytest.mark.parametrize("rule", [Captured(1), Careless()], ids=repr)
def test_a_broken_rule_is_found(rule: mt.Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign that finds nothing must be one that could."""
    monkeypatch.setattr(subjects, "drawn", lambda rng: rule)
    assert run.campaign(60, 0)["failed"] > 5


def test_quarantine_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from mixtailor.updates.reader import Reader

    monkeypatch.setattr(Reader, "examine", lambda self: None)
    assert run.campaign(150, 0)["failed"] > 5
