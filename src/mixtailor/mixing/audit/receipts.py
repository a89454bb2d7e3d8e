"""The receipts of the round drawn last: its tree is kept, so that ten thousand of them take no time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

from mixtailor.mixing.audit.entries import Drawn
from mixtailor.mixing.audit.merkle import Proof, Tree, leaves_of


@final
@dataclass(frozen=True)
class Draw:
    """What a round was given: the drawn rule's place in the pool, and the key for everything else that is random.

    Parameters
    ----------
    index : int
        The place of the drawn rule in the pool that was handed to `draw`.
    key : bytes
        32 bytes for pre-aggregation and for rules that draw themselves (`generator_of`); the same on a retry.
    round : int
        The round.
    retry : bool
        Whether this round had been drawn before, from the same rows.
    """

    index: int
    key: bytes = field(repr=False)
    round: int
    retry: bool


@final
class Received:
    """What was received in one round: digests by worker, and the tree over them."""

    def __init__(self, digests: Mapping[str, bytes]) -> None:
        self.workers, leaves = leaves_of(digests)
        self.digests = dict(digests)
        self.places = {worker: place for place, worker in enumerate(self.workers)}
        self.tree = Tree(leaves)


@final
@dataclass(frozen=True)
class Receipts:
    """The receipts of one drawn round."""

    run: str
    entry: Drawn
    entry_hash: str
    expectation: str
    received: Received

    def of(self, worker: str) -> Proof:
        """The receipt of one worker."""
        if worker not in self.received.places:
            raise KeyError(f"Worker {worker!r} sent no row in round {self.entry.round}.")
        place = self.received.places[worker]
        return Proof(
            run=self.run,
            round=self.entry.round,
            entry=self.entry_hash,
            expectation=self.expectation,
            worker=worker,
            digest=self.received.digests[worker].hex(),
            index=place,
            size=len(self.received.workers),
            path=tuple(step.hex() for step in self.received.tree.path(place)),
            root=self.entry.root,
        )

    def __iter__(self) -> Iterator[Proof]:
        return map(self.of, self.received.workers)
