"""What the campaigns share with the test suite: the storages that updates can have, and the slow oracle."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))

import naive  # noqa: E402  # as above
import storages  # noqa: E402  # the line above makes it findable

__all__ = ["ROOT", "naive", "storages"]
