"""A grid that is cut: fewer runs, the same worst attacks."""

from pathlib import Path

from mixtailor.experiments import Experiment, Results
from mixtailor.experiments.halving import halved
from mixtailor.experiments.shipped import ours
from mixtailor.experiments.worst import groups, worst_cases

TEXT = """
title = "grid"
[run]
data = "synthetic"
model = "logistic"
rounds = 10
evaluate_every = 2
batch = 4
rule = ["mean", "comed"]
attack = ["none", {name = "tailored", epsilon = 0.1}, {name = "tailored", epsilon = 10.0, label = "loud"}, "alie",
          "sign_flip", "mimic", "min_max", "zero"]
seed = [0, 1, 2, 3]
"""


def test_seeds_go_to_the_worst_attacks(tmp_path: Path) -> None:
    """Eight attacks on one seed, the worst four on two, the worst two on four; the mean's worst is the loud one."""
    text = TEXT.replace('"alie"', '{name = "alie", z = 1.0}')
    finished, budget = halved(Experiment.parse(text, "grid"), tmp_path, least=2)
    assert budget.stages == ((1, 16), (2, 8), (4, 4))
    assert (budget.made, budget.full) == (16 + 8 + 8, 64) == (len(finished), 64)
    assert "32 of 64 runs" in str(budget)
    (group,) = groups(Results.load(tmp_path / "grid"))
    cases = {case.rule: case for case in worst_cases(group)}
    assert cases["mean"].attack == "loud" and cases["mean"].seeds == 4
    assert cases["comed"].accuracy > cases["mean"].accuracy + 20
    assert Results.load(tmp_path / "grid").missing == []


def test_the_arena_has_every_rule_that_needs_no_more_than_f() -> None:
    entries = ours("arena").entries()
    rules = {entry.rule for entry in entries}
    assert {"krum", "comed", "nnm >> trimmed_mean", "MixTailor (our pool)", "MixTailor (paper's pool)"} <= rules
    attacks = {entry.attack for entry in entries}
    assert {"adaptive", "best response", "ALIE searched", "tailored searched", "none"} <= attacks
    planned = {"drift", "ALIE flipping", "sleeper", "strike", "blinding", "splitting", "expected drift", "ALIE 0.5"}
    assert planned <= attacks
    assert {entry.panel for entry in entries} == {"server momentum", "worker momentum"}
    assert not any("," in name for name in rules | attacks), "names are separated by commas on the command line"
