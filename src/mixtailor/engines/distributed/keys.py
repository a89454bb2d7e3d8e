"""One key for all ranks of a call: the first of them draws it, after the exchange, and tells the others."""

import dataclasses
from typing import Any

import numpy as np

from mixtailor.mixing.entropy import KEY_BYTES, Entropy, SystemEntropy
from mixtailor.rules.base import KeySource
from mixtailor.updates.sharded import Shards

__all__ = ["SharedKey", "source_of"]


@dataclasses.dataclass(frozen=True)
class SharedKey:
    """The first rank's keys, on every rank.

    Parameters
    ----------
    shards : Shards
        The ranks that share them, and nobody else.
    source : KeySource
        Where the first rank takes them from; that of other ranks is not asked.
    """

    shards: Shards
    source: KeySource

    def key(self, purpose: str) -> bytes:
        own = self.source.key(purpose) if self.shards.rank == 0 else bytes(KEY_BYTES)
        return bytes(self.shards.from_first(np.frombuffer(own, np.uint8)).tobytes())


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
