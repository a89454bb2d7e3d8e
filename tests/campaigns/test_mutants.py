"""Mutants: faults are found, planted where they should be, and told apart by whether a test notices."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mixtailor as mt
from campaigns.mutants.__main__ import main
from campaigns.mutants.planting import functions, plant
from campaigns.mutants.sites import mutants, planted

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = '''
"""A docstring with a 1 in it."""
LIMIT = 3

class Box:
    size: int = 2

    def fits(self, n: int = 5) -> bool:
        if n < self.size and not n == 7:
            raise ValueError(f"{n + 1} is too small")
        total = 0
        for k in range(n):
            if k % 2:
                continue
            total += k
        self.note(total)
        return max(total, 1) > -LIMIT
'''


def test_every_kind_of_fault_is_found_and_none_in_words(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE)
    found = mutants(tmp_path, "sample.py")
    kinds = {mutant.kind for mutant in found}
    assert kinds == {"comparison", "operator", "constant", "connective", "sign", "return", "dropped", "loop", "name",
                     "condition"}  # fmt: skip
    assert not any("too small" in mutant.before and mutant.kind != "dropped" for mutant in found)
    assert [(m.inside, m.target, m.before) for m in found if m.target] == [("", "LIMIT", "3"), ("Box", "size", "2")]
    assert all(mutant.inside == "Box.fits" for mutant in found if not mutant.target)
    assert len({(m.inside, m.target, m.kind, m.before, m.after, m.nth) for m in found}) == len(found)
    plain = ast.unparse(ast.parse(SAMPLE))
    texts = {ast.unparse(planted(tmp_path, mutant)) for mutant in found}
    assert plain not in texts and len(texts) == len(found)


def test_a_planted_fault_is_there_in_the_child_alone() -> None:
    """Krum that takes the second row, or any f, everywhere that Krum is; and a default, in the signature, too."""
    rows = np.array([[1.0], [1.1], [0.85], [1.4], [50.0]])
    path = "src/mixtailor/rules/krum.py"
    found = mutants(ROOT, path)
    second = next(mutant for mutant in found if (mutant.inside, mutant.before) == ("Krum.decide", "0"))
    unchecked = next(mutant for mutant in found if mutant.before == "super().__post_init__()")
    other = next(mutant for mutant in found if mutant.target == "power")
    loaded = functions(ROOT / "src")
    for mutant, works in (
        (second, lambda: float(mt.Krum(1)(rows)[0]) == 1.1),
        (unchecked, lambda: mt.Krum(-1).f == -1),
        (other, lambda: mt.Krum.__init__.__kwdefaults__["power"] == 3),
    ):
        child = os.fork()
        if not child:
            os._exit(0 if plant(ROOT, mutant, loaded) and works() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, str(mutant)
    assert float(mt.Krum(1)(rows)[0]) == 1.0 and mt.Krum(1).power == 2


def test_what_is_noticed_and_what_is_not(tmp_path: Path) -> None:
    """The whole, on one small file: a test that looks kills, one that does not lets live, and both are told."""
    (tmp_path / "test_it.py").write_text(
        "import numpy as np\nimport mixtailor as mt\n"
        "def test_mean():\n    assert mt.Mean()(np.array([[1.0], [3.0]])).tolist() == [2.0]\n"
        "def test_nothing():\n    mt.Mean().tolerates(5)\n    mt.Mean().robust\n"
        "def test_once(seen=[]):\n    mt.Mean().tolerates(5)\n    seen.append(1)\n    assert len(seen) == 1\n"
        "def passes_again():\n    '''\n    >>> mt.Mean().tolerates(5)\n    0\n    '''\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --doctest-modules\n")
    results = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "campaigns.mutants", "--matching", "rules/mean.py", "--results", str(results)]
    command += ["--tests", str(tmp_path / "test_it.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, start_new_session=True)
    verdicts = [json.loads(line) for line in results.read_text().splitlines()]
    by = {(item["inside"], item["kind"]): item["verdict"] for item in verdicts}
    assert by["Mean.decide", "return"] == "killed", done.stdout
    assert by["Mean.robust", "constant"] == "survived"  # nobody asks whether the mean is robust
    assert done.returncode == 1 and "survived: src/mixtailor/rules/mean.py" in done.stdout
    again = [line for line in done.stdout.splitlines() if "fails when it is run again" in line]
    assert [line.rpartition(":")[2] for line in again] == ["test_once"] and "4 of 4 tests" in done.stdout


def test_nothing_tried_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--tell", "--results", str(tmp_path / "none.jsonl")]) == 1
    assert "none of" in capsys.readouterr().out
