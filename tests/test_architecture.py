"""The page on the architecture describes the tree as it is."""

import itertools
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = {path.parent.name for path in (ROOT / "src" / "mixtailor").glob("*/__init__.py")}


def _layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one.get("containers") == ["mixtailor"]]
    return layers


def test_every_package_has_its_row_and_no_other_has() -> None:
    table = PAGE.split("| Package | Job |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == PACKAGES


def test_the_picture_has_every_package_in_the_order_that_the_linter_checks() -> None:
    """Each arrow of the picture points from a higher layer to a lower one."""
    picture = re.search(r"```mermaid\nflowchart TD\n(.*?)```", PAGE, re.DOTALL)
    assert picture is not None
    order = {name: place for place, line in enumerate(_layers()) for name in re.findall(r"\w+", line)}
    seen = set()
    for line in picture[1].strip().splitlines():
        chain = [set(re.findall(r"\w+", part)) for part in line.split("-->")]
        for above, below in itertools.pairwise(chain):
            seen |= above | below
            assert max(order[name] for name in above) < min(order[name] for name in below), (above, below)
    assert seen == PACKAGES
