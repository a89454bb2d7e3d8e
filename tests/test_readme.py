"""The README's code runs and prints what the README says, and its numbers are those of the pages."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).resolve().parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(kind):
    return [content for found, content in BLOCK.findall(TEXT) if found == kind]


def _versions(diff):
    """The programs before and after a change."""
    for sign in "-+":
        lines = [line[1:] for line in diff.splitlines() if line[:1] in ("", " ", sign)]
        yield "\n".join(lines)


def _printed(program):
    printed, namespace = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        exec(compile(program, str(README), "exec"), namespace)
    return printed.getvalue(), namespace


def test_the_change_prints_what_stands_below_it():
    """Both programs of the difference run. Draws are real, so the second runs often."""
    (diff,), (expected,) = _blocks("diff"), _blocks("text")
    before, after = _versions(diff)
    assert "mixtailor" not in before
    assert diff.count("\n+") == 3
    for _ in range(3):
        shown, namespace = _printed(after)
        assert _printed(before)[0] + shown == expected
        assert f"`server.suspects()` is then `{sorted(namespace['server'].suspects())}`" in TEXT


@pytest.mark.skipif(shutil.which("bash") is None, reason="the README's commands are for a POSIX shell")
def test_the_aggregate_command_works_when_it_is_pasted(tmp_path):
    """Two of twelve files are 9e9 away; the result is where the ten are."""
    pytest.importorskip("typer", reason="the command line needs the extra `cli`")
    (commands,) = [block for block in _blocks("sh") if "mixtailor aggregate" in block]
    (tmp_path / "bin").mkdir()
    for name, call in (("python", ""), ("mixtailor", "-m mixtailor")):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert np.abs(np.load(tmp_path / "result.npy")).max() < 10


def test_commands_are_those_of_the_makefile():
    targets = re.findall(r"^make (\w+)", TEXT, re.MULTILINE)
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    assert targets == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_it_is_short():
    """About 700 words besides code; tables are counted."""
    prose = BLOCK.sub("", TEXT)
    words = re.findall(r"[A-Za-z]\w+", re.sub(r"\]\([^)]*\)", "]", prose))
    assert 450 < len(words) < 750, len(words)


def _table(text, heading):
    """The lines of the table that follows a heading, as cells."""
    lines = text[text.index(heading) :].splitlines()
    table = []
    for line in lines:
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        elif table:
            break
    return [table[0], *table[2:]]


def test_numbers_against_other_libraries_are_those_of_the_page():
    page = (README.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
    whole = _table(page, "## The same rows for other libraries")
    rules = [re.fullmatch(r"(\w+) \((\d+) rules\)", cell).groups() for cell in whole[0][1:]]
    counts = {line[0].replace("row", "update"): line[1:] for line in whole[1:]}
    counts = {re.sub(r"^a update", "an update", name): line for name, line in counts.items()}
    shown = _table(TEXT, "**Hostile updates.**")
    assert shown[0][1:] == [name for name, _ in rules]
    for name, *cells in shown[1:]:
        assert cells == [f"{kept} of {all_}" for kept, (_, all_) in zip(counts[name], rules, strict=True)]


def test_speeds_are_those_of_the_page():
    page = (README.parent / "docs" / "performance.md").read_text(encoding="utf-8")
    whole = {line[0]: line for line in _table(page, "<!-- table -->")}
    shown = _table(TEXT, "<!-- speed -->")[1:]
    assert len(shown) > 3
    for line in shown:
        full = whole[line[0]]
        assert line[1:] == [full[1].partition(" ")[0], full[2], *full[5:8]]
