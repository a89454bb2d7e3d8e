"""The judge of hostile cases, on rules whose faults are known."""

import itertools

import numpy as np
import pytest

import mixtailor as mt
from campaigns.hostile import cases, ours
from campaigns.hostile.cases import CASES, F, N, judged
from campaigns.hostile.run import by_library, tables

NAMED = {case.name: case for case in CASES}


def test_our_rules_keep_every_case() -> None:
    for name, bind in ours.tasks(N, F).items():
        for case in CASES:
            assert judged(case, lambda rows, bind=bind: bind(rows)()) == "kept", (name, case.name)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("nothing hostile but the paper's attack, epsilon 0.1", "kept"),
        ("one NaN in one row", "not finite"),
        ("two rows at 1e12", "spreads away"),
        ("a row of another length", "ValueError"),
        ("all rows times 1e-30", "kept"),
    ],
)
def test_the_mean_keeps_what_it_can(name, verdict) -> None:
    assert verdict in judged(NAMED[name], lambda rows: np.mean(rows, axis=0))


def test_a_rule_with_a_unit_of_its_own_is_found() -> None:
    def clipped(rows):
        return np.clip(rows, -1.0, 1.0).mean(axis=0)

    assert judged(NAMED["all rows times 1e-12"], clipped) == "kept"
    assert judged(NAMED["all rows times 1e25"], clipped) == "another answer"


def test_a_rule_that_draws_is_told_apart() -> None:
    turns = itertools.cycle(range(N))
    verdict = judged(NAMED["all rows times 1e-12"], lambda rows: rows[next(turns)])
    assert verdict == "another answer at each call"


def test_a_rule_that_hangs_is_stopped(monkeypatch) -> None:
    monkeypatch.setattr(cases, "SECONDS", 0.05)

    def endless(rows):
        while True:
            pass

    assert judged(CASES[0], endless) == "no answer in 0.05 s"


def test_the_tables_count_rules_by_library() -> None:
    kept, lost = {case.name: "kept" for case in CASES}, {case.name: "not finite" for case in CASES}
    cells = {"Krum @ A": kept, "Krum @ B (numpy)": lost, "Krum @ B (torch)": kept, "Comed @ B (torch)": lost}
    assert by_library(cells) == {"A": {"Krum": kept}, "B": {"Krum": kept, "Comed": lost}}
    text = tables(cells)
    assert f"| {CASES[0].name} | 1 | 1 |" in text
    assert f"- B, {CASES[0].name}: not finite (Comed)" in text


def test_honest_rows_are_where_they_are_said_to_be() -> None:
    received, honest = cases.rows(NAMED["two rows at 1e12"])
    assert honest.sum() == N - F
    assert [np.abs(row).max() < 1.0 for row in received] == honest.tolist()
    assert mt.Krum(F)(np.stack(received)).max() < 1.0
