"""The README's code runs and prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_code_prints_what_stands_below_it():
    """All python blocks are one program; the text block after each is its output. Draws are real, so run it often."""
    blocks = BLOCK.findall(README.read_text(encoding="utf-8"))
    pairs = [(code, blocks[at + 1]) for at, (kind, code) in enumerate(blocks) if kind == "python"]
    assert pairs, "the README shows no code"
    for _ in range(12):
        namespace = {}
        for code, (kind, expected) in pairs:
            assert kind == "text", "each python block needs its output below it"
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, str(README), "exec"), namespace)
            assert printed.getvalue() == expected


def test_commands_are_those_of_the_makefile():
    targets = re.findall(r"^make (\w+)", README.read_text(encoding="utf-8"), re.MULTILINE)
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    assert targets == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
