"""Every formula of the docstrings and pages is one that the site can show: found in a second, before ``make docs``."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The site's converter wants braces: of \frac12 it says "Source incomplete", and the build stops.
BARE = re.compile(r"\\[dt]?frac\s*(?!\s*\{)")


def _blocks(text: str) -> Iterator[str]:
    """The formulas of ``.. math::`` in a docstring."""
    lines = text.split("\n")
    for place, line in enumerate(lines):
        found = re.match(r"(\s*)\.\. math::(.*)", line)
        if found:
            body = [found[2]]
            for other in lines[place + 1 :]:
                if other.strip() and len(other) - len(other.lstrip()) <= len(found[1]):
                    break
                body.append(other)
            yield from (part.strip() for part in re.split(r"\n\s*\n", "\n".join(body)) if part.strip())


def _formulas() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                text = ast.get_docstring(node) or ""
                yield from ((path.name, found) for found in [*re.findall(r":math:`([^`]+)`", text), *_blocks(text)])
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        found = [*re.findall(r"\$`([^`]+)`\$", text), *re.findall(r"```math\n(.*?)```", text, re.DOTALL)]
        yield from ((path.name, formula) for formula in found)


def test_every_formula_can_be_shown() -> None:
    found = list(_formulas())
    wrong = [
        f"{name}: {formula}"
        for name, formula in found
        if BARE.search(formula) or formula.count("{") != formula.count("}")
    ]
    assert len(found) > 300 and wrong == []


def test_a_formula_without_braces_is_found() -> None:
    assert BARE.search(r"x < \frac12") and not BARE.search(r"x < \frac{1}{2}")
