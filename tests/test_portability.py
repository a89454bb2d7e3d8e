"""The package works on systems without the POSIX functions that Windows lacks."""

import subprocess
import sys

# What Windows does not have, deleted before anything else is imported. `fork` goes too: the standard library asks for
# it before it calls `register_at_fork`.
WITHOUT = """
import os
for name in ("register_at_fork", "pread", "fork", "fchmod", "O_CLOEXEC", "O_NONBLOCK"):
    if hasattr(os, name):
        delattr(os, name)
"""


def run(body: str, *arguments: object) -> str:
    """Run a program in an interpreter without these names and return what it prints."""
    command = [sys.executable, "-W", "error", "-c", WITHOUT + body, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_and_aggregate() -> None:
    """Importing needs no fork handler, and neither does a call that uses threads."""
    body = """
import numpy as np
import mixtailor as mt
rows = np.arange(12.0)[:, None] * np.ones(100_000)
print(mt.Krum(f=2)(rows)[0], mt.Comed()(rows)[0], (mt.NNM(f=2) >> mt.TrimmedMean(f=2)).aggregate(rows).n)
"""
    assert run(body).split()[1:] == ["5.5", "12"]


def test_files_are_read_by_seeking(tmp_path) -> None:
    """Files give the same aggregate as the matrix they hold, also where several threads read one of them."""
    body = """
import pathlib, sys
import numpy as np
import mixtailor as mt
from mixtailor.kernels import threads
rows = np.random.default_rng(0).standard_normal((9, 300_000)).astype(np.float32)
rows[:, 5] = np.frombuffer(b"\\r\\n\\x1a\\n", np.float32)[0]  # bytes that a file in text mode would change
paths = [pathlib.Path(sys.argv[1], f"{index}.npy") for index in range(len(rows))]
for path, row in zip(paths, rows):
    np.save(path, row)
for rule in (mt.Krum(f=2), mt.TrimmedMean(f=2)):
    assert np.array_equal(rule(paths), rule(rows)), rule
"""
    assert run(body, tmp_path) == ""


def test_one_handle_in_many_threads(tmp_path) -> None:
    """Without `pread`, threads that read one file at once each get the bytes of their own position."""
    body = """
import pathlib, sys
from concurrent.futures import ThreadPoolExecutor
from mixtailor.storage.files.opened import File
path = pathlib.Path(sys.argv[1], "numbers")
path.write_bytes(b"".join(number.to_bytes(4, "big") for number in range(20_000)))
file = File(path)
sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(lambda number: int.from_bytes(file.read(4 * number, 4), "big"), range(20_000)))
assert found == list(range(20_000))
"""
    assert run(body, tmp_path) == ""
