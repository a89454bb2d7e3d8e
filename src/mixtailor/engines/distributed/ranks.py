"""The ranks of a process group: how coordinates are divided among them, and how they compute the same numbers."""

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch
import torch.distributed as dist

from mixtailor._types import Floats, Integers
from mixtailor.engines.distributed.lane import Lane, bounds
from mixtailor.kernels.norms import added
from mixtailor.storage.group import Group

__all__ = ["Ranks"]

# Functions of this module have the default group as a default argument, bound when it is imported, and `torch.optim`
# imports it late. Bound to a group that is there, they keep it alive past `destroy_process_group`. Its threads then
# still run while the interpreter ends, and one that drops a tensor there aborts the process.
if not dist.is_initialized():
    import torch.distributed.nn.functional

# Up to so many numbers from all ranks together are sent by each to each and summed there: one step, where a sum on the
# first rank that is then sent to the others takes two.
_GATHERED = 1 << 16
# Below this, a sum of p-th powers has lost digits to underflow.
_TINY = 1e-280


class _Box:
    """Room for a few numbers to each rank and from each, as arrays and as tensors of the same memory.

    Kept between calls: on a processor that has just moved megabytes, making a tensor takes longer than sending it.
    """

    def __init__(self, shape: tuple[int, int], dtype: "np.dtype[Any]") -> None:
        self.out, self.into = np.empty(shape, dtype), np.empty(shape, dtype)
        self.sent, self.received = torch.from_numpy(self.out), torch.from_numpy(self.into)


_boxes: "dict[np.dtype[Any], _Box]" = {}  # those that are not in use


@final
class Ranks(Group):
    """The ranks of a `torch.distributed` group, each of which holds a slice of d coordinates.

    Laws: every rank gets the same bits, so that all decide alike; every rank makes the same calls in the same order.
    The ranks of a `lane` hold the same coordinates, an update each; by default all ranks of the group do. Where updates
    are sharded over ranks, `seats` has the update and the shard of each rank.
    """

    def __init__(
        self,
        d: int,
        group: "dist.ProcessGroup | None" = None,
        lane: Lane | None = None,
        seats: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self.group, self._all = group, Lane(group)
        self.rank, self.count, self.device = self._all.rank, self._all.count, self._all.device
        self.lane = self._all if lane is None else lane
        self.seats = [(rank, 0) for rank in range(self.count)] if seats is None else seats
        # Among how many ranks each update is divided, and which part this one holds.
        self.shards, self.shard = 1 + max(shard for _, shard in self.seats), self.seats[self.rank][1]
        self.same_bits = False
        self._words: tuple[Integers, Callable[[Integers], None]] | None = None
        self.cover(d, *[0] * (self.shards - 1))

    @property
    def members(self) -> "dist.ProcessGroup":
        """The group, also where it is the default one."""
        return self._all.members

    def cover(self, *widths: int) -> None:
        """Share out another number of coordinates, given for each shard."""
        self.d = sum(widths)
        self.lane.cover(widths[self.shard])
        before = sum(widths[: self.shard])  # this rank's slice is counted over all shards
        self.start, self.stop = before + self.lane.start, before + self.lane.stop
        self._widths = widths

    def say(self, words: Integers, hear: Callable[[Integers], None]) -> None:
        """Have whole numbers travel with what the ranks exchange next; `hear` gets those of all ranks, a row each."""
        self._words = words, hear

    def settle(self) -> None:
        """Exchange now what is still to be said."""
        if self._words is not None:
            (words, hear), self._words = self._words, None
            hear(self.gathered(words))

    def gathered(self, values: Any) -> Any:
        """A numpy array of one shape from every rank, stacked in the order of the ranks."""
        own = np.asarray(values)
        shape = self.count, own.size
        box = _boxes.pop(own.dtype, None)  # whoever takes it has it alone
        if box is None or box.out.shape != shape:
            box = _Box(shape, own.dtype)
        box.out[:] = own.reshape(-1)
        # Each rank to each, in one step. gloo's all_gather goes round in a ring, and on few processors each of its
        # count - 1 steps waits until the next rank is awake.
        if self.device.type == "cpu":
            self._all.all_to_all(box.received, box.sent)
        else:
            every = torch.empty_like(box.sent, device=self.device)
            self._all.all_to_all(every, box.sent.to(self.device))
            box.received.copy_(every)
        found = box.into.reshape(self.count, *own.shape).copy()
        _boxes[own.dtype] = box
        return found

    def together(self, values: Floats, *, maximum: bool = False) -> Floats:
        """The sums, or the maxima, of what the ranks have; the same bits everywhere."""
        if values.size * self.count <= _GATHERED:
            every = self._gathered_with_words(values)
            with np.errstate(all="ignore"):  # what is not finite is looked for by whoever asked
                return np.asarray(every.max(axis=0) if maximum else every.sum(axis=0))
        self.settle()
        # A maximum of NaN and a number is either, by the backend; infinity is as good a sign of a faulty row.
        whole = np.where(np.isnan(values), np.inf, values) if maximum else values
        total = torch.from_numpy(np.array(whole)).to(self.device)
        self._all.reduce(total, maximum=maximum)
        self._all.broadcast(total)
        return np.asarray(total.cpu().numpy())

    def _gathered_with_words(self, values: Floats) -> Floats:
        if self._words is None:
            return np.asarray(self.gathered(values))
        (words, hear), self._words = self._words, None
        # Floats travel as the bits of whole numbers, and not the other way round: some bits are a NaN.
        every = self.gathered(np.concatenate([words, values.reshape(-1).view(np.int64)]))
        hear(every[:, : words.size])
        return np.asarray(every[:, words.size :].view(np.float64).reshape(self.count, *values.shape))

    # What a call needs of its group.

    def sum(self, values: Floats, doubt: bool, *, maximum: bool = False) -> tuple[Floats, bool]:
        found = self.together(np.append(values.reshape(-1), float(doubt)), maximum=maximum)
        return found[:-1].reshape(values.shape), bool(found[-1] > 0.0)

    def lengths(self, own: Floats, powers: Floats, doubt: bool) -> tuple[Floats, bool]:
        if own.size * self.count <= _GATHERED:
            every = self._gathered_with_words(np.append(own.reshape(-1), float(doubt)))
            return added(every[:, :-1].reshape(self.count, *own.shape), powers), bool((every[:, -1] > 0.0).any())
        largest, rooted = powers == np.inf, powers < np.inf
        total, exponents = own.copy(), np.where(rooted, powers, 1.0)[:, None]
        with np.errstate(over="ignore"):
            total **= exponents
        if largest.any():
            total[largest], doubt = self.sum(own[largest], doubt, maximum=True)
        if not largest.all():
            total[~largest], doubt = self.sum(total[~largest], doubt)
        # Sums that left the range are formed again, in the unit of the largest part: all ranks see the same ones.
        lost = ~((total == 0.0) | (total > _TINY) & (total < np.inf)) & rooted[:, None]
        total **= 1.0 / exponents
        if lost.any():
            units, _ = self.sum(own, False, maximum=True)
            units = np.where((units > 0.0) & (units < np.inf), units, 1.0)
            again, _ = self.sum((own / units) ** exponents, False)
            total[lost] = (units * again ** (1.0 / exponents))[lost]
        return total, doubt

    def agreed(self, values: Any) -> Any:
        """What the first rank has, a numpy array of one shape on all ranks."""
        self.settle()
        found = torch.from_numpy(np.array(values)).to(self.device)
        self._all.broadcast(found)
        return found.cpu().numpy()

    def whole(self, matrix: Any) -> Any:
        """All slices of a matrix side by side, on every rank."""
        if self.count == 1:
            return matrix
        tensor = matrix if isinstance(matrix, torch.Tensor) else torch.from_numpy(matrix)
        slices = []  # the coordinates of every rank's slice, counted over all shards
        for update, shard in self.seats:
            before = sum(self._widths[:shard])
            start, stop = bounds(self._widths[shard], self.lane.count, update)
            slices.append((before + start, before + stop))
        sent = tensor.new_zeros((len(tensor), max(stop - start for start, stop in slices)), device=self.device)
        sent[:, : tensor.shape[1]] = tensor
        every = sent.new_empty((self.count, *sent.shape))
        self._all.gather(every.view(-1), sent.view(-1))
        found = sent.new_empty((len(tensor), self.d))
        for (start, stop), part in zip(slices, every, strict=True):
            found[:, start:stop] = part[:, : stop - start]
        return found.to(tensor.device) if isinstance(matrix, torch.Tensor) else found.cpu().numpy()
