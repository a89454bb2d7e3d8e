"""One key for all ranks of a call: the first rank draws it and sends it to the others."""

import dataclasses
from typing import SupportsBytes

import numpy as np

from mixtailor.engines.distributed.ranks import Ranks
from mixtailor.mixing.entropy import KEY_BYTES
from mixtailor.mixing.sources import source_of
from mixtailor.rules.request import KeySource

__all__ = ["SentKey", "SharedKey", "source_of"]


class SentKey:
    """The key that the first rank sends to the others before it is used."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self.value: bytes | None = None

    def __bytes__(self) -> bytes:
        if self.value is None:
            self._ranks.settle()
        assert self.value is not None, "set when the key was received"
        return self.value


@dataclasses.dataclass(frozen=True)
class SharedKey:
    """The first rank's keys, on every rank.

    Parameters
    ----------
    ranks : Ranks
        The ranks that share them, and nobody else.
    source : KeySource
        Where the first rank takes them from; that of other ranks is not asked.
    known : dict
        Keys that come with something else, by purpose; each is given out once.
    """

    ranks: Ranks
    source: KeySource
    known: dict[str, SupportsBytes] = dataclasses.field(default_factory=dict)

    def key(self, purpose: str) -> SupportsBytes:
        if purpose in self.known:
            return self.known.pop(purpose)
        self.ranks.settle()  # all may start again there, and a key is given out once
        own = bytes(self.source.key(purpose)) if self.ranks.rank == 0 else bytes(KEY_BYTES)
        return bytes(self.ranks.agreed(np.frombuffer(own, np.uint8)).tobytes())
