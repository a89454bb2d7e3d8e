"""A file is replaced whole or not at all, and nothing else in the project replaces files in another way."""

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mixtailor._files import atomic_write, new_file, rename

ROOT = Path(__file__).resolve().parents[1]


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "numbers"
    for content in (b"first", b"second"):
        before = path.read_bytes() if path.exists() else None
        with atomic_write(path) as file:
            file.write(content)
            file.flush()
            assert (path.read_bytes() if path.exists() else None) == before
        assert path.read_bytes() == content
    assert [found.name for found in path.parent.iterdir()] == ["numbers"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_no_trace(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with atomic_write(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "numbers"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"), atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="needs a signal that cannot be caught")
def test_a_killed_process_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(b"old")
    program = """
import sys, time
from mixtailor._files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"new")
    file.flush()
    print(".", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert path.read_bytes() == b"old"
    left = [found.name for found in tmp_path.iterdir() if found != path]
    assert len(left) == 1 and re.fullmatch(r"\.numbers\.[0-9a-f]{12}\.part", left[0])


@pytest.mark.skipif(os.name != "posix", reason="the order in which a folder is flushed is POSIX's affair")
def test_content_is_on_the_disk_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    flush, replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "content")
        flush(descriptor)

    def renamed(source: str, target: str) -> None:
        steps.append("name")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", renamed)
    with atomic_write(tmp_path / "numbers") as file:
        file.write(b"1")
    assert steps == ["content", "name", "folder"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_permissions_are_those_of_an_ordinary_file_or_as_given(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_bytes(b"")
    with atomic_write(tmp_path / "atomic") as file:
        file.write(b"1")
    with atomic_write(tmp_path / "secret", mode=0o600) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "atomic", "secret")}
    assert modes["atomic"] == modes["ordinary"] and modes["secret"] == 0o600


def test_a_new_file_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    with pytest.raises(FileExistsError), new_file(tmp_path / "there") as file:
        file.write(b"new")
    with new_file(tmp_path / "new") as file:
        file.write(b"new")
    rename(tmp_path / "new", tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == b"new"


def test_two_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    with atomic_write(path) as first, atomic_write(path) as second:
        first.write(b"first")
        second.write(b"second")
    assert path.read_bytes() == b"first"


@pytest.mark.parametrize("folder", ["src", "campaigns", "benchmarks", "docs", "examples"])
def test_nobody_else_renames_files(folder: str) -> None:
    """One module replaces files; whatever else renames or makes temporary files by hand would be a second way."""
    pattern = re.compile(r"\bos\.(replace|rename)\(|\bmkstemp\(|NamedTemporaryFile\(|\.rename\(")
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path != ROOT / "src" / "mixtailor" / "_files.py":
            assert not pattern.search(path.read_text(encoding="utf-8")), f"{path.relative_to(ROOT)}: use atomic_write"
