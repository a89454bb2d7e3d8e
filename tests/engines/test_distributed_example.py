"""The examples run under torchrun, as their first lines say, and learn with a poisoned rank."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parents[2] / "examples" / "distributed"
LEAVING = Path(__file__).resolve().parent / "leaving.py"


def _free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _said(command):
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said, _ = run.communicate(timeout=240)
    finally:
        if run.poll() is None:
            run.terminate()  # the launcher ends its ranks
            run.wait(60)
    assert run.returncode == 0, said
    return said


@pytest.mark.parametrize(
    ("program", "count", "options"),
    [
        ("train.py", 4, ["--steps", "60"]),
        ("train.py", 4, ["--hook", "--steps", "60"]),
        ("sharded.py", 6, ["--shards", "2", "--steps", "60"]),
        ("local_steps.py", 4, ["--rounds", "15"]),
    ],
    ids=["optimizer", "hook", "sharded", "local steps"],
)
def test_example_learns(program, count, options):
    """Well below the loss of a model that has learnt nothing, and far from what the poisoned rank asks for."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(count), "--master-port", str(_free_port())]
    command = [sys.executable, *launcher, str(PROGRAMS / program), *options]
    said = _said(command)
    loss, nothing = map(
        float, re.search(r"loss ([\d.]+) on clean data \(a model that answers 0: ([\d.]+)\)", said).groups()
    )
    assert loss < nothing / 10


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_group_ends_with_its_threads():
    """A thread of gloo that outlives its group may drop a tensor while the interpreter ends: it aborts."""
    assert "left: \n" in _said([sys.executable, str(LEAVING)])
