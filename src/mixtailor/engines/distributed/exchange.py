"""Slices of all ranks' vectors, from each rank to each, and the answer's slices back."""

from typing import Any, TypeAlias

import torch

from mixtailor.updates import Call
from mixtailor.updates.dense import Dense
from mixtailor.updates.engine import addresses_of
from mixtailor.updates.sharded import Sharded
from mixtailor.updates.shards import Shards

__all__ = ["Exchange", "Form"]

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

    def home(self) -> Dense | None:
        """The rows in place, where they can be aggregated as they are."""
        if self.matrix is None:
            return None
        return Dense(self.matrix, Call(), range(len(self.matrix)), self.addresses)


def _wire(tensor: torch.Tensor) -> torch.Tensor:
    """What is sent of a tensor: bytes, where not every backend knows its type. Nothing is computed on the way."""
    return tensor if tensor.dtype in _PLAIN else tensor.view(torch.uint8)


_rooms: dict[tuple[torch.dtype, torch.device], _Room] = {}  # those that are not in use


class Exchange:
    """This rank's slice of every rank's vector, a row each, for as long as the block lasts.

    Attributes
    ----------
    flat : Tensor
        This rank's vector, flat; zeros if it is not of the form that is expected.
    """

    def __init__(self, tensor: torch.Tensor, form: Form, shards: Shards) -> None:
        d, dtype = form
        shards.cover(d)
        if (tensor.numel(), tensor.dtype) != form:
            self.flat = torch.zeros(d, dtype=dtype, device=tensor.device)
        elif tensor.dim() == 1 and tensor.is_contiguous() and not tensor.requires_grad:
            self.flat = tensor  # the usual case, with two tensors less to make
        else:
            self.flat = tensor.detach().reshape(-1)
        self._shards, own = shards, shards.stop - shards.start
        self._key = dtype, tensor.device
        room = _rooms.pop(self._key, None)  # whoever takes it has it alone
        if room is None or not room.holds(shards.count * own):
            room = _Room(shards.count * own, dtype, tensor.device)
        room.shape(shards.count, own)
        self._room, self._wire = room, _wire(self.flat)
        self._answer: Any = None
        size = self._wire.numel() // d if d else 1
        self._widths = [(stop - start) * size for start, stop in shards.places]
        shards.all_to_all(room.wire, self._wire, [own * size] * shards.count, self._widths)

    def __enter__(self) -> "Exchange":
        return self

    def home(self, faults: dict[int, str], reference: torch.Tensor | None) -> Sharded:
        """The rows that are sound."""
        rows, shards = self._room.rows, self._shards
        own = None if faults or reference is not None else self._room.home()
        if own is None:
            kept = [row for row in range(shards.count) if row not in faults]
            return Sharded.of(rows[kept] if faults else rows, shards, faults=faults)
        # The answer may go where this rank's slice came from.
        self._answer = self.flat.numpy()[shards.start : shards.stop]
        return Sharded.of(own, shards, answer=self._answer)

    def __exit__(self, kind: object, *_error: object) -> None:
        if kind is not None:  # an answer that was begun there
            self.flat[self._shards.start : self._shards.stop] = self._room.rows[self._shards.rank]
        _rooms[self._key] = self._room

    def spread(self, own: Any, owner: int | None) -> None:
        """Fill the vector with the slices of all ranks' answers, in place; with zeros where there is no answer.

        A rank whose vector is the answer, the owner, has it already.
        """
        shards = self._shards
        if own is None:
            self.flat.zero_()
            return
        if shards.rank != owner and own is not self._answer:
            self.flat[shards.start : shards.stop] = torch.as_tensor(own)
        # Each rank sends its slice to each: gloo's all_gather would go through a copy of the whole, in fresh memory.
        parts = self._wire.split_with_sizes(self._widths)
        sent = [None if rank == owner else parts[shards.rank] for rank in range(shards.count)]
        for message in shards.exchange(sent, parts if shards.rank != owner else [None] * shards.count):
            message.wait()
