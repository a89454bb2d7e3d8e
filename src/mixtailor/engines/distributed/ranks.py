"""The ranks of a process group: how coordinates are divided among them, and how they compute the same numbers."""

from collections.abc import Callable, Sequence
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.distributed as dist

from mixtailor._checks import refuse
from mixtailor._types import Flags, Floats, Integers
from mixtailor.kernels.norms import added
from mixtailor.storage.group import Group

__all__ = ["Ranks", "bounds"]

# Functions of this module have the default group as a default argument, bound when it is imported, and `torch.optim`
# imports it late. Bound to a group that is there, they keep it alive past `destroy_process_group`. Its threads then
# still run while the interpreter ends, and one that drops a tensor there aborts the process.
if not dist.is_initialized():
    import torch.distributed.nn.functional

# Up to so many numbers from all ranks together are sent by each to each and summed there: one step, where a sum on the
# first rank that is told to the others takes two.
_GATHERED = 1 << 16
# Below this, a sum of p-th powers has lost digits to underflow.
_TINY = 1e-280

# One call of two names: torch 2.13 warns of the older.
_gather_into: Callable[..., Any] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
# What `all_to_all_single` comes to, past all that it looks at anew in each call; not a name that torch promises.
_swapped: Callable[..., Any] | None = getattr(dist.ProcessGroup, "alltoall_base", None)

_CPU = torch.device("cpu")
# This rank, how many there are, and whether they exchange what is on a device.
_seats: "WeakKeyDictionary[dist.ProcessGroup, tuple[int, int, bool]]" = WeakKeyDictionary()


def _seat(group: "dist.ProcessGroup") -> tuple[int, int, bool]:
    found = _seats.get(group)
    if found is None:
        found = _seats[group] = group.rank(), group.size(), dist.get_backend(group) == "nccl"
    return found


class _Box:
    """Room for a few numbers to each rank and from each, as arrays and as tensors of the same memory.

    Kept between calls: on a processor that has just moved megabytes, making a tensor takes longer than sending it.
    """

    def __init__(self, shape: tuple[int, int], dtype: "np.dtype[Any]") -> None:
        self.out, self.into = np.empty(shape, dtype), np.empty(shape, dtype)
        self.sent, self.received = torch.from_numpy(self.out), torch.from_numpy(self.into)


_boxes: "dict[np.dtype[Any], _Box]" = {}  # those that are not in use


def bounds(d: int, count: int, rank: int) -> tuple[int, int]:
    """The coordinates of one of `count` slices: all are of width ceil(d / count), but for the last ones.

    Examples
    --------
    >>> [bounds(10, 4, rank) for rank in range(4)]
    [(0, 3), (3, 6), (6, 9), (9, 10)]
    """
    width = -(-d // count)
    start = min(rank * width, d)
    return start, min(start + width, d)


@final
class Ranks(Group):
    """The ranks of a `torch.distributed` group, each of which holds a slice of d coordinates.

    Laws: every rank gets the same bits, so that all decide alike; every rank makes the same calls in the same order.

    Parameters
    ----------
    d : int
        The coordinates of all slices together.
    group : ProcessGroup, optional
        The ranks that take part; all of them by default.

    Attributes
    ----------
    alike : bool
        Whether all ranks are known to come to the same bits when they compute the same from the same numbers.
    """

    def __init__(self, d: int, group: "dist.ProcessGroup | None" = None) -> None:
        self.group = group
        self.alike = False
        self._words: tuple[Integers, Callable[[Integers], None]] | None = None
        outside: Any = dist.GroupMember.NON_GROUP_MEMBER
        if group == outside:
            refuse("This rank is not in the group. Call on the ranks of the group only.")
        self.rank, self.count, on_device = _seat(self.members)
        self._first = 0 if group is None else dist.get_global_rank(group, 0)
        self.device = torch.device("cuda", torch.cuda.current_device()) if on_device else _CPU
        self.cover(d)

    @property
    def members(self) -> "dist.ProcessGroup":
        """The group, also where it is the default one, which is not kept: it must end when it is destroyed."""
        members = dist.group.WORLD if self.group is None else self.group
        if members is None:
            refuse("The ranks need a group and there is none. Call torch.distributed.init_process_group first.")
        return members

    def cover(self, d: int) -> None:
        """Share out another number of coordinates."""
        self.d, self.width = d, -(-d // self.count)
        self.places = [bounds(d, self.count, rank) for rank in range(self.count)]
        self.start, self.stop = self.places[self.rank]

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
            self.all_to_all(box.received, box.sent)
        else:
            every = torch.empty_like(box.sent, device=self.device)
            self.all_to_all(every, box.sent.to(self.device))
            box.received.copy_(every)
        found = box.into.reshape(self.count, *own.shape).copy()
        _boxes[own.dtype] = box
        return found

    def all_to_all(
        self, received: torch.Tensor, sent: torch.Tensor, into: Sequence[int] = (), out: Sequence[int] = ()
    ) -> None:
        """Send each rank a part of one tensor and receive a part of another from each, of these sizes or equal ones."""
        if _swapped is not None and self.device.type == "cpu":
            _swapped(self.members, received, sent, into, out).wait()
        else:
            dist.all_to_all_single(received, sent, list(into), list(out), group=self.members)

    def exchange(self, sent: "Sequence[torch.Tensor | None]", received: "Sequence[torch.Tensor | None]") -> list[Any]:
        """Begin to send each of the other ranks a tensor and to receive one from each, where there is one.

        For what goes to several ranks as it is: `all_to_all` would need a copy for each of them.
        """
        group, peers = self.members, [(self.rank + step) % self.count for step in range(1, self.count)]
        into = [(rank, part) for rank in reversed(peers) if (part := received[rank]) is not None and part.numel()]
        out = [(rank, part) for rank in peers if (part := sent[rank]) is not None and part.numel()]
        if self.device.type == "cpu":  # past what `isend` and `irecv` look at anew for each of them
            return [group.recv([part], rank, 0) for rank, part in into] + [
                group.send([part], rank, 0) for rank, part in out
            ]
        batch = [dist.P2POp(dist.irecv, part, group=group, group_peer=rank) for rank, part in into]
        batch += [dist.P2POp(dist.isend, part, group=group, group_peer=rank) for rank, part in out]
        return dist.batch_isend_irecv(batch) if batch else []

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
        dist.reduce(total, self._first, op=dist.ReduceOp.MAX if maximum else dist.ReduceOp.SUM, group=self.group)
        dist.broadcast(total, self._first, group=self.group)
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

    def sum(self, values: Floats, doubt: bool) -> tuple[Floats, bool]:
        found = self.together(np.append(values.reshape(-1), float(doubt)))
        return found[:-1].reshape(values.shape), bool(found[-1] > 0.0)

    def _maximum(self, values: Floats, doubt: bool) -> tuple[Floats, bool]:
        found = self.together(np.append(values.reshape(-1), float(doubt)), maximum=True)
        return found[:-1].reshape(values.shape), bool(found[-1] > 0.0)

    def lengths(self, own: Floats, powers: Floats, raw: Flags, doubt: bool) -> tuple[Floats, bool]:
        if own.size * self.count <= _GATHERED:
            every = self._gathered_with_words(np.append(own.reshape(-1), float(doubt)))
            return added(every[:, :-1].reshape(self.count, *own.shape), powers, raw), bool((every[:, -1] > 0.0).any())
        largest, rooted = powers == np.inf, ~raw & (powers < np.inf)
        total, exponents = own.copy(), np.where(rooted, powers, 1.0)[:, None]
        with np.errstate(over="ignore"):
            total **= exponents
        if largest.any():
            total[largest], doubt = self._maximum(own[largest], doubt)
        if not largest.all():
            total[~largest], doubt = self.sum(total[~largest], doubt)
        # Sums that left the range are formed again, in the unit of the largest part: all ranks see the same ones.
        lost = ~((total == 0.0) | (total > _TINY) & (total < np.inf)) & rooted[:, None]
        total **= 1.0 / exponents
        if lost.any():
            units, _ = self._maximum(own, False)
            units = np.where((units > 0.0) & (units < np.inf), units, 1.0)
            again, _ = self.sum((own / units) ** exponents, False)
            total[lost] = (units * again ** (1.0 / exponents))[lost]
        return total, doubt

    def agreed(self, values: Any) -> Any:
        """What the first rank has, a numpy array of one shape on all ranks."""
        self.settle()
        found = torch.from_numpy(np.array(values)).to(self.device)
        dist.broadcast(found, self._first, group=self.group)
        return found.cpu().numpy()

    def whole(self, matrix: Any) -> Any:
        """All slices of a matrix side by side, on every rank."""
        if self.count == 1:
            return matrix
        tensor = matrix if isinstance(matrix, torch.Tensor) else torch.from_numpy(matrix)
        sent = tensor.new_zeros((len(tensor), self.width), device=self.device)
        sent[:, : tensor.shape[1]] = tensor
        every = sent.new_empty((self.count, *sent.shape))
        _gather_into(every.view(-1), sent.view(-1), group=self.group)
        found = every.transpose(0, 1).reshape(len(tensor), -1)[:, : self.d].contiguous()
        return found.to(tensor.device) if isinstance(matrix, torch.Tensor) else found.cpu().numpy()
