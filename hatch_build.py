"""The README as PyPI shows it: there is no other file there, so links and pictures lead to the repository."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/mixtailor/mixtailor/blob/main/"
PICTURES = "https://raw.githubusercontent.com/mixtailor/mixtailor/main/"


def absolute(text: str) -> str:
    """Markdown whose relative links are absolute."""

    def target(found: "re.Match[str]") -> str:
        return found[1] + (PICTURES if found[1].startswith("!") else REPOSITORY) + found[2]

    return re.sub(r"(!?\[[^]]*\]\()(?!\w+:|#)([^)\s]+\))", target, text)


class Readme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text)}
