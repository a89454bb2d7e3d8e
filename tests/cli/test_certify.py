"""Certificates from the command line: states recorded on the way or found, verdicts as exit codes."""

import json
from pathlib import Path

import pytest

from mixtailor.cli import main

TOML = """
title = "recorded"
[run]
preset = "digits"
rounds = 20
rule = ["comed", "krum"]
attack = "zero"
"""


@pytest.fixture
def certify(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["certify", *arguments, "--out", str(tmp_path / "results")])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def test_a_pool_is_trained_recorded_and_judged(certify) -> None:
    """Krum follows a tenth of the mean turned round; twice asked, it is trained once."""
    options = ("--rule", "krum", "--attacks", "tailored 0.1,tailored 10", "--states", "2", "--resamples", "3")
    code, shown, _ = certify(*options, "--scale", "0.1", "--json")
    found = json.loads(shown)
    assert code == 1 and found["verdict"] == "broken" and found["labels"] == ["tailored 0.1", "tailored 10"]
    assert (found["states"], found["resamples"], found["workers"], found["f"]) == (2, 3, 12, 2)
    folder = Path(found["folder"])
    before = (folder / "summary.json").stat().st_mtime_ns
    code, shown, _ = certify(*options, "--scale", "0.1", "--each")
    assert code == 1 and "Broken: rounds 0, 20; 3 resamples each." in shown and "Krum(f=2)" in shown
    assert (folder / "summary.json").stat().st_mtime_ns == before
    code, shown, _ = certify(str(folder), "--rule", "nnm >> comed", "--attacks", "tailored 10")
    assert code == 0 and "Holds on these states" in shown


def test_a_sweep_leaves_states(certify, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs complete without states are made once more and keep their results."""
    (tmp_path / "recorded.toml").write_text(TOML)
    arguments = ["run", str(tmp_path / "recorded.toml"), "--out", str(tmp_path / "results"), "--jobs", "1", "--json"]
    assert main(arguments) == 0
    before = {path: path.read_bytes() for path in tmp_path.glob("results/runs/*/*") if path.is_file()}
    for _ in range(2):
        assert main([*arguments, "--states", "2", "--resamples", "2"]) == 0
    assert {path: path.read_bytes() for path in before} == before
    capsys.readouterr()
    code, shown, _ = certify(str(tmp_path / "results" / "recorded"), "--attacks", "tailored 10", "--json")
    assert json.loads(shown)["names"] == ["round 0", "round 20"] * 2 and code in (0, 1)


def test_mistakes_get_a_sentence(certify, tmp_path: Path) -> None:
    assert certify("--attacks", "tailord 10")[0] == 2
    assert "Did you mean 'tailored 10'" in certify("--attacks", "tailord 10")[2]
    code, _, told = certify(str(tmp_path))
    assert code == 1 and "There are no states in" in told and "--states 4" in told
    code, _, told = certify("--rule", "krum", "--f", "6", "--scale", "0.1")
    assert code == 1 and "Krum(f=6) needs at least 15 rows" in told
