"""Hostile Flower rounds in short form, and that the campaign would find what it looks for."""

import pytest

pytest.importorskip("flwr")

from campaigns.flower import run
from campaigns.flower.replies import KINDS
from mixtailor.engines.flower import strategy


def test_the_short_form_finds_nothing() -> None:
    """A hundred and fifty rounds with replies of every kind."""
    tally = run._block(1, 0, 150)
    assert (tally.tried, tally.failures) == (150, [])
    assert set(tally.counts["kind"]) >= set(list(KINDS)[:5])
    assert run.repeat("1:3") == []


def test_the_short_form_with_a_memory_finds_nothing() -> None:
    """Four hostile rounds in a row, thirty times."""
    tally = run._block(1, 0, 30, memory=True)
    assert (tally.tried, tally.failures) == (30, [])
    assert sum(tally.counts["rounds"].values()) == 120


def test_an_error_that_leaves_the_strategy_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: object, **_options: object) -> object:
        raise ArithmeticError("planted")

    monkeypatch.setattr(strategy, "collect", fails)
    assert run.repeat("1:0")[0].startswith("ArithmeticError: planted")


def test_a_rule_that_follows_hostile_clients_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean in the place of every rule: some round ends far from the honest clients."""
    from campaigns.flower import case

    monkeypatch.setattr(case, "rules", lambda _f: [lambda rows: rows.mean(axis=0)])
    monkeypatch.setattr(case, "KINDS", {"far": KINDS["far"]})
    assert run._block(1, 0, 30).failures
