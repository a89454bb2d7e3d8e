"""A newcomer's path, as the tutorial has it: clone, demo, a comparison of one's own, a figure for a paper."""

import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import stranger

ROOT = Path(__file__).resolve().parent.parent


def test_the_program_has_under_30_lines() -> None:
    """Own rule, attack, network and data, a table, a page and a figure: all that a newcomer has to write."""
    lines = stranger.program(ROOT / stranger.PAGE).splitlines()
    assert len([line for line in lines if line.strip()]) < 30


@pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="a clone needs git and a repository"
)
def test_from_a_clone_to_a_figure(tmp_path: Path) -> None:
    """The demo is short here; the clone has what is committed, so a page that is not committed fails."""
    steps = stranger.walk(tmp_path, ["--scale", "0.02", "--seeds", "1", "--jobs", "1"], sys.executable)
    printed = {step.name: step.printed for step in steps}
    assert "MixTailor (recommended)" in printed["demo"] and "report.html" in printed["demo"]
    for word in ("near_median", "recommended(f=2)", "Opposite()", "worst", "00-all.pdf", "table-01.tex"):
        assert word in printed["own comparison"]
