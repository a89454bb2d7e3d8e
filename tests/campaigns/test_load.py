"""Load in short form: a loop of calls, threads, and forks of a process with threads."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork of a process with threads is what is tried here
from campaigns.load import run
found = run.campaign(0.02, 0, d=20_000)
assert found["failures"] == [], found["failures"]
assert found["tried"] >= len(run.RULES)
"""


def test_the_short_form_finds_nothing() -> None:
    """The same bits in every call, from every thread and process; a thousand clients; one row, one coordinate, none."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
