"""A stand-in for torchvision, put in its place before a peer is imported.

ByzFL imports torchvision for its training loop; no aggregation rule uses it, and there is no build of it for every
machine. Attributes of the stand-in can be called at import time and do nothing. It is used where the real one is
missing, in this environment alone, and has no part in what is timed.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

__all__ = ["put_in_place"]


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_arguments, **_keywords: None


def put_in_place() -> bool:
    """Register the stand-in unless the real module is installed; returns whether it was needed."""
    if importlib.util.find_spec("torchvision") is not None:
        return False
    top = _StandIn("torchvision")
    for part in ("datasets", "transforms"):
        module = _StandIn(f"torchvision.{part}")
        setattr(top, part, module)
        sys.modules[module.__name__] = module
    sys.modules["torchvision"] = top
    return True
