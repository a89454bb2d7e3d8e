"""The package's types, seen from outside."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def _mypy(*files):
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--show-error-codes", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT, env=_environment())


def _environment():
    import os

    return {**os.environ, "MYPYPATH": str(ROOT / "src")}


def test_user_code_checks_and_mistakes_do_not():
    """Good code has no error; each mistake has the one that it is marked with, and nothing else has any."""
    run = _mypy(HERE / "user_code.py", HERE / "mistakes.py")
    found = re.findall(r"(\w+\.py):(\d+): error: .*\[([\w-]+)\]", run.stdout)
    lines = (HERE / "mistakes.py").read_text(encoding="utf-8").splitlines()
    expected = [(at, line.split("# expect: ")[1]) for at, line in enumerate(lines, 1) if "# expect: " in line]
    ours = [item for item in found if item[0] in ("user_code.py", "mistakes.py")]
    assert [item for item in ours if item[0] == "user_code.py"] == [], run.stdout
    assert [(int(line), code) for _, line, code in ours] == expected, run.stdout


def test_user_code_runs():
    spec = importlib.util.spec_from_file_location("user_code", HERE / "user_code.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["user_code"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    update, faulty, rule = module.aggregate(np.random.default_rng(0).normal(size=(5, 8)))
    assert np.isfinite(update).all() and faulty == [] and rule
    module.checked()
