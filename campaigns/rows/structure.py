"""Updates that are none: a wrong shape, a missing layer, a broken file, something else altogether."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from campaigns.rows.inputs import Input


def damaged(given: Input, sent: list[Any], rng: np.random.Generator) -> tuple[Input, list[Any]]:
    """Some Byzantine rows, fewer than half of all, are no updates at all."""
    most = min(len(given.byzantine), (len(sent) - 1) // 2)
    if not most:
        return given, sent
    chosen = [int(row) for row in rng.choice(given.byzantine, size=int(rng.integers(1, most + 1)), replace=False)]
    sent = list(sent)
    for row in chosen:
        sent[row] = _file(sent[row], rng) if isinstance(sent[row], Path) else _object(sent[row], rng)
    return replace(given, faulty=tuple(sorted({*given.faulty, *chosen}))), sent


def _file(path: Path, rng: np.random.Generator) -> Any:
    content = path.read_bytes()
    match rng.integers(4):
        case 0:
            path.write_bytes(content[: rng.integers(len(content))])
        case 1:
            path.write_bytes(content + rng.bytes(3))
        case 2:
            return path.with_name("nowhere" + path.suffix)
        case _:
            path.write_bytes(rng.bytes(64))
    return path


def _object(item: Any, rng: np.random.Generator) -> Any:
    others: list[Any] = [None, "update", {}, [], object(), np.array(["a"]), np.zeros(3, complex), {"conv.weight": None}]
    if isinstance(item, dict):
        renamed = {("extra" if key == "block" else key): value for key, value in item.items()}
        others += [renamed, {**item, "extra": np.zeros(1)}, {"conv.weight": item["conv.weight"]}, np.zeros(2)]
    else:
        others += [np.zeros((2, len(item))), np.zeros(len(item) + 1), item[None], [item, item], {"a": item}]
    return others[rng.integers(len(others))]
