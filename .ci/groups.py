"""The requirements of a dependency group, one per line, for a pip that does not know groups (older than 25.1).

``python .ci/groups.py test`` reads ``[dependency-groups]`` of pyproject.toml, included groups too (PEP 735).
``python .ci/groups.py --lowest`` prints the dependencies of the package itself at the lowest versions it allows.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def group(name: str) -> list[str]:
    """The requirements of one group, those of included groups among them."""
    groups = project()["dependency-groups"]
    if name not in groups:
        raise SystemExit(f"There is no dependency group {name!r}. Known are {', '.join(groups)}.")
    found: list[str] = []
    for item in groups[name]:
        found += group(item["include-group"]) if isinstance(item, dict) else [item]
    return list(dict.fromkeys(found))


def lowest() -> list[str]:
    """The package's own dependencies, each at its lower bound."""
    return [
        re.sub(r"^([A-Za-z0-9_.-]+)>=([^,; ]+).*$", r"\1==\2", line) for line in project()["project"]["dependencies"]
    ]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print("\n".join(lowest() if sys.argv[1] == "--lowest" else group(sys.argv[1])))
