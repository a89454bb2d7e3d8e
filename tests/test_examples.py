"""The example programs run as a user would run them."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


# What a program prints, besides something.
PRINTED = {"own_comparison": ("near_median", "Opposite", "worst", "report.html", "00-all.pdf", ".csv", ".tex")}


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_program_runs(program):
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout and not run.stderr
    assert [word for word in PRINTED.get(program.stem, ()) if word not in run.stdout] == []


def test_a_comparison_of_ones_own_takes_under_30_lines():
    """Own rule, attack, network and data, a table, a page, a figure for a paper: what a newcomer has to write."""
    program = next(path for path in EXAMPLES if path.stem == "own_comparison").read_text(encoding="utf-8")
    code = program.split('"""', 2)[2].splitlines()
    assert len([line for line in code if line.strip() and not line.lstrip().startswith("#")]) < 30
