"""The example job on FLARE's own simulator: nine sites in processes of their own, two of them hostile."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from engines.processes import SECONDS

pytest.importorskip("nvflare")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "flare"


def _run(folder, *options, program="job.py"):
    command = [sys.executable, str(EXAMPLES / program), "--workspace", str(folder), *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS)
    said = run.stdout + run.stderr
    assert run.returncode == 0, said[-4000:]
    return float(re.search(r"^accuracy ([\d.]+)", said, re.MULTILINE)[1]), said


def test_two_hostile_sites_of_nine_do_not_stop_the_others(tmp_path):
    """Three rounds, tensors on the server's disk."""
    accuracy, said = _run(tmp_path, "--rounds", "3", "--offload")
    assert accuracy > 0.8
    assert len(re.findall(r"on 9 sites", said)) == 3


def test_with_flares_average_they_do(tmp_path):
    """The same job with the mean: the test above could fail."""
    accuracy, _ = _run(tmp_path, "--rounds", "3", "--mean")
    assert accuracy < 0.5


def test_without_rounds_slow_sites_hold_nobody_up(tmp_path):
    """The same sites and a controller of ours: two are hostile, two others take three seconds more."""
    accuracy, said = _run(tmp_path, "--steps", "6", program="buffered.py")
    assert accuracy > 0.8
    assert re.findall(r"Step (\d+): ", said) == ["1", "2", "3", "4", "5", "6"]
