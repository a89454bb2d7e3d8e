"""The example programs run as a user would run them."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


# What a program prints, besides something.
WORDS = ("near_median", "recommended(f=2)", "Opposite", "worst", "report.html", "00-all.pdf", ".csv", ".tex")
PRINTED = {"own_comparison": WORDS}


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_program_runs(program, tmp_path):
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout and not run.stderr
    assert [word for word in PRINTED.get(program.stem, ()) if word not in run.stdout] == []
