"""What the tests of audit trails write into their logs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

POOL = ["Krum(f=1)", "Comed()", "Comed()", "GeometricMedian()", "Bulyan(f=1)"]


def rows(round: int, workers: int = 5) -> dict[str, bytes]:
    """Digests of the rows of a round."""
    return {f"w{number}": hashlib.sha256(f"{round} {number}".encode()).digest() for number in range(workers)}


def entries(path: Path) -> list[dict[str, object]]:
    """The log as JSON."""
    return [json.loads(line) for line in path.read_text().splitlines()]
