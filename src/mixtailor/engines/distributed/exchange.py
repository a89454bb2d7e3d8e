"""Slices of all ranks' vectors, from each rank to each, and the slices of the result back."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from mixtailor._checks import refuse
from mixtailor.engines.distributed.ranks import Ranks
from mixtailor.intake import Arrival, receive
from mixtailor.kernels.space import addresses_of
from mixtailor.storage import Matrix, Shard

__all__ = ["Exchange", "Form", "sharded"]

Form: TypeAlias = tuple[int, torch.dtype]  # the number of coordinates, and their type

_PLAIN = (torch.float32, torch.float64)  # types that every backend sends and that are aggregated as they are


class _Room:
    """Memory for the rows of a slice, and the same memory in all forms that a call needs.

    Kept between calls. Fresh memory would cost as much as sending what goes into it: the system hands out large blocks
    page by page. The forms cost more than they seem to, on a processor that has just moved megabytes.
    """

    def __init__(self, entries: int, dtype: torch.dtype, device: torch.device) -> None:
        self.memory = torch.empty(entries, dtype=dtype, device=device)
        self.plain = dtype in _PLAIN and device.type == "cpu"
        self._shape: tuple[int, int] | None = None

    def holds(self, entries: int) -> bool:
        """Whether it is large enough for these, and not much larger."""
        return entries <= self.memory.numel() <= 2 * entries

    def shape(self, count: int, width: int) -> None:
        """Have rows of this shape."""
        if self._shape != (count, width):
            self._shape, used = (count, width), self.memory[: count * width]
            self.wire, self.rows = _wire(used), used.view(count, width)
            self.matrix = self.rows.numpy() if self.plain else None
            self.addresses = None if self.matrix is None else addresses_of(self.matrix)

    def storage(self) -> Matrix | None:
        """The rows in place, where they can be aggregated as they are."""
        return None if self.matrix is None else Matrix(self.matrix, self.addresses)


def _wire(tensor: torch.Tensor) -> torch.Tensor:
    """What is sent of a tensor: bytes, where not every backend knows its type. Nothing is computed on the way."""
    return tensor if tensor.dtype in _PLAIN else tensor.view(torch.uint8)


_rooms: dict[tuple[torch.dtype, torch.device], _Room] = {}  # those that are not in use


class Exchange:
    """This rank's slice of every update, a row each, for as long as the block lasts.

    Parameters
    ----------
    tensor : Tensor
        What this rank holds of its update.
    forms : sequence of (int, dtype)
        What most have, for each shard.
    ranks : Ranks

    Attributes
    ----------
    flat : Tensor
        This rank's vector, flat; zeros if it is not of the form that is expected.
    """

    def __init__(self, tensor: torch.Tensor, forms: Sequence[Form], ranks: Ranks) -> None:
        ranks.cover(*(width for width, _ in forms))
        d, dtype = form = forms[ranks.shard]
        if (tensor.numel(), tensor.dtype) != form:
            self.flat = torch.zeros(d, dtype=dtype, device=tensor.device)
        elif tensor.dim() == 1 and tensor.is_contiguous() and not tensor.requires_grad:
            self.flat = tensor  # the usual case, with two tensors less to make
        else:
            self.flat = tensor.detach().reshape(-1)
        self._ranks, lane, own = ranks, ranks.lane, ranks.stop - ranks.start
        self._key = dtype, tensor.device
        room = _rooms.pop(self._key, None)  # whoever takes it has it alone
        if room is None or not room.holds(lane.count * own):
            room = _Room(lane.count * own, dtype, tensor.device)
        room.shape(lane.count, own)
        self._room, self._wire = room, _wire(self.flat)
        self._result: Any = None
        size = self._wire.numel() // d if d else 1
        self._widths = [(stop - start) * size for start, stop in lane.places]
        lane.all_to_all(room.wire, self._wire, [own * size] * lane.count, self._widths)

    def __enter__(self) -> "Exchange":
        return self

    def arrival(self, faults: dict[int, str], reference: torch.Tensor | None) -> Arrival:
        """The updates that are sound, on this rank's slice."""
        rows, ranks, n = self._room.rows, self._ranks, self._ranks.lane.count
        own = None if faults or reference is not None else self._room.storage()
        if own is None:
            kept = [row for row in range(n) if row not in faults]
            return sharded(rows[kept] if faults else rows, ranks, faults=faults)
        # The result may go where this rank's slice came from.
        self._result = self.flat.numpy()[ranks.lane.start : ranks.lane.stop]
        storage = Shard(own, ranks.start, ranks.d, self._result)
        return Arrival(storage, tuple(range(n)), {}, n, _as_it_is, _as_it_is, group=ranks)

    def __exit__(self, kind: object, *_error: object) -> None:
        if kind is not None:  # a result that was begun there
            lane = self._ranks.lane
            self.flat[lane.start : lane.stop] = self._room.rows[lane.rank]
        _rooms[self._key] = self._room

    def spread(self, own: Any, owner: int | None) -> None:
        """Fill the vector with the slices of all ranks' results, in place; with zeros where there is no result.

        A rank whose vector is the result, the owner, has it already.
        """
        lane = self._ranks.lane
        if own is None:
            self.flat.zero_()
            return
        if lane.rank != owner and own is not self._result:
            self.flat[lane.start : lane.stop] = torch.as_tensor(own)
        # Each rank sends its slice to each: gloo's all_gather would go through a copy of the whole, in fresh memory.
        parts = self._wire.split_with_sizes(self._widths)
        sent = [None if rank == owner else parts[lane.rank] for rank in range(lane.count)]
        for message in lane.exchange(sent, parts if lane.rank != owner else [None] * lane.count):
            message.wait()


def _as_it_is(vector: Any, *_left: object) -> Any:
    return vector


def sharded(rows: Any, ranks: Ranks, *, faults: "dict[int, str] | None" = None) -> Arrival:
    """Receive updates in any form, each on this rank's coordinates. A reference and the result are slices, too.

    Parameters
    ----------
    rows : array, tensor or sequence
        The updates that are sound, in their order.
    ranks : Ranks
    faults : dict, optional
        Updates that are not among them, and what is wrong with each; the same on all ranks.
    """
    known, own = dict(faults or {}), receive(rows)
    if own.faults:
        refuse(f"Rows {sorted(own.faults)} of this slice are not of the shape or type of the others.")
    if own.storage.d != ranks.stop - ranks.start:
        refuse(f"This rank's slice needs {ranks.stop - ranks.start} coordinates and has {own.storage.d}.")
    n = own.n + len(known)
    received = tuple(row for row in range(n) if row not in known)
    storage = Shard(own.storage, ranks.start, ranks.d)
    return Arrival(storage, received, known, n, own.restore, own.flatten, group=ranks)
