"""`Arrival`: what arrived, and how a result becomes an update again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from mixtailor._checks import refuse
from mixtailor.intake.digests import digest_of
from mixtailor.storage.group import Group
from mixtailor.storage.rows import Rows

__all__ = ["Arrival"]


@final
@dataclass(frozen=True, eq=False)
class Arrival:
    """Received updates, checked for structure. Rules take one in place of the updates themselves.

    Attributes
    ----------
    storage : Rows
        The updates whose structure is sound, and after them the base, if there is one.
    received : tuple of int
        The index of each of them among all updates.
    faults : dict
        The updates that do not have the structure that most have, and what is wrong with each.
    n : int
        How many updates were received.
    restore : callable
        From a flat result, and the indices of the updates that remain, to what one worker would have sent.
    flatten : callable
        From an update from outside (a reference) to a flat vector in the array type of the storage.
    base : bool
        Whether the last row of the storage is a base that updates are differences to.
    group : Group, optional
        The processes that share the coordinates, where there are several.
    watch : callable, optional
        Called after each range of coordinates with the share of all that it was.
    tensors : bool
        Whether the updates are tensors of torch: a plain callable then gets one.
    sent : callable, optional
        From the index of an update to the digest of all that its worker sent, or None where nothing was sent.
    """

    storage: Rows
    received: tuple[int, ...]
    faults: dict[int, str]
    n: int
    restore: Callable[[Any, tuple[int, ...]], Any]
    flatten: Callable[[Any], Any]
    base: bool = False
    group: Group | None = None
    watch: Callable[[float], None] | None = None
    tensors: bool = False
    sent: Callable[[int], bytes | None] | None = None

    @classmethod
    def of(cls, storage: Rows) -> "Arrival":
        """All rows of a storage, without faults; results and references are flat, as the storage has them."""
        return cls(storage, tuple(range(storage.n)), {}, storage.n, lambda flat, _: flat, lambda flat: flat)

    def digests(self) -> list[bytes | None]:
        """For each of the n updates, the SHA-256 of all that its worker sent; None for a worker that sent nothing."""
        if self.sent is not None:
            return [self.sent(index) for index in range(self.n)]
        if self.faults:
            refuse("An audited draw needs what each worker sent, and of faulty updates nothing is kept here.")
        if self.group is not None:
            refuse(
                "An audited draw needs the digests of whole updates, and this process holds a slice of each. Use an "
                "engine whose server receives whole updates."
            )
        digests: list[bytes | None] = []
        for row in range(len(self.received)):
            coordinates = self.storage.new()
            self.storage.copy_row(row, coordinates)
            digests.append(digest_of(coordinates))
        return digests
