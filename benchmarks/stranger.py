"""The path of somebody who has never seen mixtailor, in a new clone, with the cost of each step.

    python -m benchmarks.stranger

Clone, install, run the demo, then compare a rule, an attack, a network and data of one's own and draw a figure for a
paper: the program of ``docs/tutorials/own-comparison.md``, as a reader would copy it.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/tutorials/own-comparison.md"
WRITTEN = ("report.html", "paper/00-all.pdf", "paper/table-01.csv", "paper/table-01.tex")


@dataclass(frozen=True)
class Step:
    """One command: what it printed, and its seconds on the wall and of all processors."""

    name: str
    printed: str
    wall: float
    processors: float


def program(page: Path) -> str:
    """What a reader copies from the page: its one Python program."""
    found = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(found) == 1, f"{page} needs one program and has {len(found)}"
    return str(found[0])


def walk(folder: Path, demo: Sequence[str] = (), python: str | None = None) -> list[Step]:
    """Go the path below a folder.

    Parameters
    ----------
    folder : Path
        Where the clone goes.
    demo : sequence of str
        Options of the demo, to make it shorter.
    python : str, optional
        An interpreter that has the dependencies; by default ``make`` sets up one in the clone.
    """
    clone = folder / "mixtailor"
    steps = [_step("clone", ["git", "clone", "--quiet", str(ROOT), str(clone)], folder)]
    if python is None:
        steps.append(_step("install", ["make", ".venv/ready"], clone))
        python = str(clone / ".venv" / "bin" / "python")
    steps.append(_step("demo", [python, "-m", "mixtailor", "demo", *demo], clone))
    (clone / "mine.py").write_text(program(clone / PAGE), encoding="utf-8")
    steps.append(_step("own comparison", [python, "mine.py"], clone))
    missing = [name for name in WRITTEN if not (clone / "results" / "mine" / name).is_file()]
    assert not missing, f"mine.py did not write {missing}"
    return steps


def _step(name: str, command: Sequence[str], folder: Path) -> Step:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Step(name, done.stdout, time.monotonic() - started, spent)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        steps = walk(Path(folder), sys.argv[1:])
    print(f"{'step':<16}{'wall':>8}{'processors':>12}")
    for step in steps:
        print(f"{step.name:<16}{step.wall:>8.0f}{step.processors:>12.0f}")


if __name__ == "__main__":
    main()
