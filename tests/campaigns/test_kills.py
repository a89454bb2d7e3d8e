"""Kills and full disks in short form: a child process is forked, killed, started again, and ends as if undisturbed."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="victims are forked")

# In a process of its own: forks want one thread, and the suite has more. One for both, since starting costs the most.
CODE = """
import json, tempfile
from pathlib import Path
import numpy as np
from campaigns._ledger import Tally
from campaigns.kills import run
found, tally = run.campaign(6, 5), Tally()
problems = {}
for k, (name, victim) in enumerate(run.VICTIMS.items()):
    with tempfile.TemporaryDirectory() as folder:
        problems[name] = run._full(victim, Path(folder), 0, np.random.default_rng([k, 4]), tally)
print(json.dumps([found, problems, tally.counts["disk"]]))
"""


@pytest.fixture(scope="module")
def told() -> list[Any]:
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CODE], env={**environment, "TMPDIR": folder}, cwd=folder,
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return list(json.loads(done.stdout.splitlines()[-1]))


def test_the_short_form_finds_nothing(told: list[Any]) -> None:
    """Six kills and more, and whatever they hit, nothing that was reported is lost."""
    found = told[0]
    assert found["kills"] >= 6
    assert found["failures"] == []


def test_a_full_disk_stops_work_and_loses_nothing(told: list[Any]) -> None:
    """Room is made, and the work goes on to the same end."""
    _, problems, disks = told
    assert problems == {"simulation": [], "sweep": [], "aggregate": [], "audit": []}
    assert any(name.startswith("full") for name in disks), "no disk was full: the sizes are too large"
