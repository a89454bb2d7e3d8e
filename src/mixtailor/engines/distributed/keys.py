"""One key for all ranks of a call: the first of them draws it and tells the others."""

import dataclasses

import numpy as np

from mixtailor.engines.sources import source_of
from mixtailor.mixing.entropy import KEY_BYTES
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
    known : dict
        Keys that all ranks have already, by purpose; each is given out once.
    """

    shards: Shards
    source: KeySource
    known: dict[str, bytes] = dataclasses.field(default_factory=dict)

    def key(self, purpose: str) -> bytes:
        if purpose in self.known:
            return self.known.pop(purpose)
        own = self.source.key(purpose) if self.shards.rank == 0 else bytes(KEY_BYTES)
        return bytes(self.shards.from_first(np.frombuffer(own, np.uint8)).tobytes())
