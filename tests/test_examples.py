"""The example programs run as a user would run them."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_program_runs(program):
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout and not run.stderr
