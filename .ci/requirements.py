"""Write requirements.txt: what the tests need, at the versions of constraints.txt, with the hashes of all files.

``make requirements`` does it, wherever pip can reach an index. What is needed is settled by pip itself, here (Linux,
CPython 3.11); of each release, the wheels for other platforms and later versions of Python are listed as well. A file
that pip finds in a place of its own, such as a CPU build of torch, is listed beside the index's builds for other
platforms. The index's build for this one is left out then: pip prefers a link that carries its hash to a file in a
folder, and would take the accelerators' build, with gigabytes that it needs and that nobody asked for.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from groups import group  # beside this file

# pip's own, so that an environment with nothing else in it will do.
from pip._vendor.packaging.tags import sys_tags
from pip._vendor.packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from pip._vendor.packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
# The project itself is installed without an isolated build, so what builds it is a requirement like any other.
BUILD = ("hatchling", "editables")
PACKAGE = ".[all,flower]"
HEAD = """\
# Written by `make requirements`; do not edit. For: pip install --no-deps --require-hashes -r requirements.txt
# Resolved on Linux with CPython 3.11. Elsewhere (pip 25.1 or newer):
# pip install --constraint constraints.txt --group dev --editable ".[all,flower]"
"""


def resolved() -> list[dict[str, Any]]:
    """What pip would install into an empty environment, and where it would take each file from."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += [
            "--report",
            str(report),
            "--constraint",
            "constraints.txt",
            *BUILD,
            *group("dev"),
            "--editable",
            PACKAGE,
        ]
        subprocess.run(command, check=True, cwd=ROOT)
        found: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["install"]
    return [item for item in found if "archive_info" in item["download_info"]]


class _Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if tag == "a" and name == "href"]


def index() -> str:
    """The index that pip is configured for."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"\.index-url='([^']+)'", listed)
    return (found[1] if found else "https://pypi.org/simple").rstrip("/")


def listed(where: str, name: str, version: str, *, elsewhere: bool) -> set[str]:
    """The hashes of the release's wheels that a supported Python could take; with `elsewhere`, not this very one."""
    here = set(sys_tags())
    with urllib.request.urlopen(f"{where}/{canonicalize_name(name)}/", timeout=120) as answer:
        links = _Links(answer.read().decode()).found
    hashes = set()
    for link in links:
        address, _, fragment = link.partition("#sha256=")
        try:
            _, own, _, tags = parse_wheel_filename(urllib.parse.unquote(address.rpartition("/")[2]))
        except (InvalidWheelFilename, InvalidVersion):
            continue
        wanted = any(_supported(tag.interpreter, tag.abi) for tag in tags) and not (elsewhere and tags & here)
        if own == Version(version) and fragment and wanted:
            hashes.add(fragment[:64])
    return hashes


def _supported(interpreter: str, abi: str) -> bool:
    return interpreter in ("py3", "py311", "cp311", "cp312", "cp313") or (abi == "abi3" and interpreter < "cp314")


def line(item: dict[str, Any], where: str) -> str:
    """One requirement with its hashes."""
    name, version = canonicalize_name(item["metadata"]["name"]), Version(item["metadata"]["version"])
    taken = item["download_info"]["archive_info"]["hashes"]["sha256"]
    hashes = {taken} | listed(where, name, version.public, elsewhere=version.local is not None)
    return " \\\n".join([f"{name}=={version.public}", *(f"    --hash=sha256:{found}" for found in sorted(hashes))])


def main() -> None:
    """Resolve, look up, write."""
    found, where = resolved(), index()
    with ThreadPoolExecutor(8) as pool:
        lines = sorted(pool.map(lambda item: line(item, where), found))
    (ROOT / "requirements.txt").write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    print(f"requirements.txt: {len(lines)} packages, {sum(text.count('--hash') for text in lines)} hashes")


if __name__ == "__main__":
    main()
