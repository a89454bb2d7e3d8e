"""A library for the benchmarks to be compared with: one rule that agrees, one that differs, one that fails."""

from collections.abc import Callable
from typing import Any

import numpy as np

Bind = Callable[[Any], Callable[[], Any]]


def _fails(rows: Any) -> Callable[[], Any]:
    raise RuntimeError("no such rule after all")


def tasks(n: int, f: int) -> dict[str, Bind]:
    print("libraries print what they like")
    return {
        "Comed @ Plain (numpy)": lambda rows: lambda: np.median(rows, axis=0),
        "TrimmedMean @ Plain (numpy)": lambda rows: lambda: rows.mean(axis=0),
        "Krum @ Plain (numpy)": _fails,
    }


def remarks() -> dict[str, str]:
    return {"TrimmedMean @ Plain (numpy)": "nothing is trimmed"}


def versions() -> dict[str, str]:
    return {"plain": "1.0"}
