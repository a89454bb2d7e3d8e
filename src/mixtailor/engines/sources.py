"""Where the randomness of a rule comes from."""

import dataclasses
from typing import Any

from mixtailor.mixing.entropy import Entropy, SystemEntropy
from mixtailor.rules.base import KeySource

__all__ = ["source_of"]


def source_of(rule: Any) -> KeySource:
    """The entropy that a rule or one of its parts was given; the operating system's where there is none.

    Examples
    --------
    >>> import mixtailor as mt
    >>> source_of(mt.NNM(1) >> mt.Krum(1))
    SystemEntropy()
    """
    for item in dataclasses.fields(rule) if dataclasses.is_dataclass(rule) else ():
        value = getattr(rule, item.name)
        if isinstance(value, Entropy):
            return value
        if dataclasses.is_dataclass(value) and (found := source_of(value)) != SystemEntropy():
            return found
    return SystemEntropy()
