"""Results as JSON that every reader takes."""

import dataclasses
import json
import math
from typing import Any

__all__ = ["to_json"]


def to_json(result: Any) -> str:
    """A dataclass, or what is made of plain values, as JSON; a number that is not finite becomes a word.

    Examples
    --------
    >>> to_json({"low": float("-inf"), "high": 1.0})
    '{"low": "-inf", "high": 1.0}'
    """
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        result = dataclasses.asdict(result)
    return json.dumps(_plain(result))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
