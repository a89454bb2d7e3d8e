"""The table of engines agrees with the tests, the pages and their diffs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "engines"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (PAGES / "index.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| [")
]
NAMES = [re.match(r"\[([^\]]+)\]", row[0])[1] for row in ROWS]
# What these pages call whom they protect against.
THREATS = ("**Protects against**", "| Protects against |", "## Against whom")


def _page(row):
    target, _, anchor = re.match(r"\[[^\]]+\]\(([^)]+)\)", row[0])[1].partition("#")
    return (PAGES / target).read_text(encoding="utf-8"), anchor


def _section(text, anchor):
    """The text under the heading of an anchor, as GitHub makes anchors of headings."""
    for part in re.split(r"^(?=#{2,3} )", text, flags=re.MULTILINE):
        heading = part.splitlines()[0].lstrip("# ").lower()
        if re.sub(r"[^a-z0-9 -]", "", heading).replace(" ", "-") == anchor:
            return part
    raise AssertionError(f"no heading has the anchor {anchor}")


def _files(cell):
    """The paths of a cell; a name without a folder is beside the one before it."""
    folder = Path()
    for name in re.findall(r"`([^`]+)`", cell):
        path = Path(name) if "/" in name else folder / name
        folder = path.parent
        yield path


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_every_engine_is_checked_by_tests(row):
    assert len(row) == 5
    paths = list(_files(row[2]))
    assert paths
    for path in paths:
        found = [ROOT / path] if path.suffix else sorted((ROOT / path).glob("test_*.py"))
        assert found and all("def test_" in file.read_text(encoding="utf-8") for file in found), path


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_the_threat_model_comes_before_any_program(row):
    text, _ = _page(row)
    assert min(text.index(words) for words in THREATS if words in text) < text.index("```")


@pytest.mark.parametrize("row", [row for row in ROWS if row[4][0].isdigit()], ids=lambda row: row[0][:20])
def test_lines_to_change_are_those_of_the_diff(row):
    """Where the page shows a difference; lines that import do not count."""
    text, anchor = _page(row)
    diff = re.search(r"```diff\n(.*?)```", _section(text, anchor) if anchor else text, re.DOTALL)
    if diff is None:
        return
    changed = [line for line in diff[1].splitlines() if not re.match(r"[+-]\s*(from|import) ", line)]
    count = max(sum(line.startswith(sign) for line in changed) for sign in "+-")
    assert row[4].startswith(f"{count}:")
