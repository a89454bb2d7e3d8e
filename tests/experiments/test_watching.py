"""What somebody at a terminal sees of runs and rounds, and that nobody else sees anything."""

import io
import re
import sys

import pytest

from mixtailor.experiments import Finished, watched_runs
from mixtailor.experiments.watching import _Shown
from mixtailor.simulation import watched


class Terminal(io.StringIO):
    """Somebody watches."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue()))


def watching(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called in the test itself: between set-up and test, pytest puts its own stderr back."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_runs_and_the_rounds_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of four of which one is known; a resumed run begins in the middle; what is too long is cut."""
    terminal = watching(monkeypatch)
    with watched_runs() as watch:
        assert isinstance(watch, _Shown)
        watch.begun(1, 4)
        rounds = watch.running("a rule with a name " * 20, 300)
        rounds.evaluated({"accuracy": 0.5})
        for done in range(201, 210):
            rounds.round(done, "Krum(f=2) [of the pool]")
        watch._bar.refresh()  # ten times a second by itself, which is too seldom for a test
        watch.finished(Finished("x", "first", accuracy=0.875), 2, 4)
        watch.finished(Finished("y", "second", error="ValueError: no"), 3, 4)
    lines = terminal.lines()
    assert any("209/300" in line and "50.0 %" in line and "Krum(f=2) [of the pool]" in line for line in lines)
    assert all(len(line) <= 100 for line in lines)
    last = next(line for line in reversed(lines) if "3/4" in line)
    assert "failed" in last and "second" in last and re.search(r"\d:\d\d:\d\d", last)
    assert any("runs" in line and "1/4" in line for line in lines), "what was known before counts"


def test_one_run_alone_counts_no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watching(monkeypatch)
    with watched_runs() as watch:
        assert watch is not None
        watch.begun(0, 1)
        rounds = watch.running("alone", 10)
        assert rounds is not None
        rounds.round(1, "Comed()")
    assert not any(line.startswith("runs") for line in terminal.lines())
    assert any("alone" in line and "1/10" in line for line in terminal.lines())


def test_your_own_run_can_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watching(monkeypatch)
    with watched(10, title="mine") as progress:
        progress.round(4, "Comed()")
        progress.evaluated({"accuracy": 0.25})
    assert any("mine" in line and "4/10" in line and "25.0 %" in line for line in terminal.lines())


def test_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with watched_runs() as watch, watched(10) as progress:
        assert watch is None
        progress.round(1, "Comed()")
    assert capsys.readouterr().err == ""
