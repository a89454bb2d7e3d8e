"""What belongs to one call of a rule: its randomness, and what its caller knows."""

from collections.abc import Sequence
from typing import Any, SupportsBytes, final

import numpy as np

__all__ = ["Call", "Faulty"]


@final
class Faulty(Exception):  # a signal to the rule's caller, not an error that a user sees
    """Received updates prove a fault, most often by non-finite entries. The caller removes them and starts again."""

    def __init__(self, rows: Sequence[int], reason: str = "not finite") -> None:
        super().__init__(f"rows {list(rows)} are {reason}")
        self.rows = tuple(int(row) for row in rows)
        self.reason = reason


@final
class Call:
    """The randomness of a call and what its caller knows.

    Parameters
    ----------
    random : Generator or bytes, optional
        The randomness, or the key it comes from; by default the operating system's.
    reference : vector, optional
        What the caller trusts, or had last round, flat.
    honest : tuple of int, optional
        The honest updates.
    """

    __slots__ = ("_random", "honest", "reference")

    def __init__(
        self,
        random: np.random.Generator | SupportsBytes | None = None,
        reference: Any = None,
        honest: tuple[int, ...] | None = None,
    ) -> None:
        self._random, self.reference, self.honest = random, reference, honest

    @property
    def random(self) -> np.random.Generator:
        """Created on first use: most rules draw nothing, and a generator costs as much as a median."""
        if not isinstance(self._random, np.random.Generator):
            key = None if self._random is None else int.from_bytes(bytes(self._random), "big")
            self._random = np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(key)))
        return self._random

    @random.setter
    def random(self, random: np.random.Generator) -> None:
        self._random = random
