"""The benchmark runs, and measures what it says: at a size that shows nothing but that."""

import os
import subprocess
import sys
from pathlib import Path

from engines.flower.processes import QUIET

ROOT = Path(__file__).resolve().parents[3]


def test_the_benchmark_runs():
    command = [sys.executable, "-m", "benchmarks.flower_server", "--clients", "11", "--width", "1", "--samples", "1"]
    run = subprocess.run(
        [*command, "--only", "FedMedian"],
        cwd=ROOT,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert "FedMedian, time" in run.stdout and "FedMedian, extra memory" in run.stdout
    assert "parameters in 62 arrays" in run.stdout
