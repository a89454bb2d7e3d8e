"""Check that version, changelog and citation agree: ``python .ci/release.py``, or with a tag such as v0.1.0.

Without a tag the newest version may be unreleased. With one it must be released under that tag, with a date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(root: Path, tag: str | None = None) -> list[str]:
    """What does not agree, in sentences; nothing where all is well."""
    version = _found(r'^__version__ = "(.+)"$', root / "src" / "mixtailor" / "_version.py")
    heading = _found(r"^## (.+)$", root / "CHANGELOG.md")
    cited = _found(r"^version: (.+)$", root / "CITATION.cff")
    dated = _found(r"^date-released: (.+)$", root / "CITATION.cff")
    newest = re.fullmatch(r"(\S+) \((unreleased|\d{4}-\d\d-\d\d)\)", heading or "")
    if newest is None:
        return [f"CHANGELOG.md begins with {heading!r}; needed is `VERSION (unreleased)` or `VERSION (YYYY-MM-DD)`."]
    found = []
    for where, other in (("CHANGELOG.md", newest[1]), ("CITATION.cff", cited)):
        if other != version:
            found.append(f"{where} says version {other}, and src/mixtailor/_version.py says {version}.")
    released = None if newest[2] == "unreleased" else newest[2]
    if dated != released:
        found.append(f"CITATION.cff says date-released {dated}, and CHANGELOG.md says {newest[2]}.")
    if tag is not None:
        if tag != f"v{version}":
            found.append(f"The tag is {tag}, and the version is {version}: the tag must be v{version}.")
        if released is None:
            found.append(f"CHANGELOG.md says that {newest[1]} is unreleased: write the date of the release.")
    return found


def _found(pattern: str, path: Path) -> str | None:
    match = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else None


if __name__ == "__main__":
    wrong = problems(ROOT, sys.argv[1] if len(sys.argv) > 1 else None)
    print("\n".join(wrong) or "Version, changelog and citation agree.")
    sys.exit(bool(wrong))
