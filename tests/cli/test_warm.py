"""Kernels compiled ahead of time, and the message to someone who waits for them."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mixtailor.cli import main
from mixtailor.kernels.compiling import MESSAGE, Watch, tell_terminal


def warm(cache: Path, *arguments: str) -> Any:
    """What the command says, in a process of its own with that cache."""
    command = [sys.executable, "-m", "mixtailor", "warm", "--n", "7", "--json", *arguments]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def test_says_what_it_compiles_and_compiles_it_once(tmp_path: Path) -> None:
    """The second process finds on disk what the first compiled."""
    first, second = (warm(tmp_path, "--rules", "mean") for _ in range(2))
    assert [each["rule"] for each in first["rules"]] == ["Mean()"]
    assert [each["kernel"] for each in first["rules"][0]["compiled"]] == ["combinations._combine_one"]
    assert second["rules"][0]["compiled"] == []


def test_pools_are_compiled_member_by_member(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", "--rules", "default_pool,caf", "--types", "float32,float64"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("CAF(f=2)") == 2 and shown.count("GeometricMedian()") == 2
    assert "float64" in shown and " compiled in " in shown


def test_a_type_without_kernels_gets_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", "--types", "float16"]) == 1
    assert "got 'float16'" in capsys.readouterr().err


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """Compilations of some length, and how often they made a message."""

    def __init__(self) -> None:
        self.clock, self.messages = Clock(), 0
        self.watch = Watch(self.clock, self.count)

    def count(self) -> None:
        self.messages += 1

    def compile(self, seconds: float, *functions: Any) -> None:
        """Each inside the one before, and so long before the next begins."""
        for each in functions:
            self.watch.begin(each)
            self.clock.now += seconds
        for _ in functions:
            self.watch.end()


def function(name: str, module: str = "mixtailor.kernels.columns") -> Any:
    return SimpleNamespace(__name__=name, __module__=module)


def test_there_is_one_message_after_a_second() -> None:
    watched = Watched()
    watched.compile(0.6, function("median"))
    assert watched.messages == 0
    watched.compile(0.3, function("trimmed"), function("copy", "numba.np"))
    assert watched.messages == 1
    watched.compile(9.0, function("around"))
    assert watched.messages == 1


def test_the_message_comes_while_one_waits() -> None:
    """Not when all is done: something that begins inside a long compilation is the occasion."""
    watched = Watched()
    watched.watch.begin(function("median"))
    watched.clock.now += 1.5
    watched.watch.begin(function("inner"))
    assert watched.messages == 1


def test_what_other_packages_compile_is_theirs() -> None:
    watched = Watched()
    with watched.watch.listed() as found:
        watched.compile(5.0, function("theirs", "elsewhere"))
        watched.compile(0.5, function("ours"), function("theirs", "elsewhere"))
    assert [(each.kernel, each.seconds) for each in found] == [("columns.ours", 1.0)]
    assert watched.messages == 0


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "told"), [(Screen(), MESSAGE + "\n"), (io.StringIO(), "")])
def test_only_a_terminal_is_told(stream: io.StringIO, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    tell_terminal()
    assert stream.getvalue() == told
