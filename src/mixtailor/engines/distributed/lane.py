"""The ranks that hold the same coordinates, an update each: how they share these out and exchange slices of them."""

from collections.abc import Callable, Sequence
from typing import Any, final
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from mixtailor._checks import refuse

__all__ = ["Lane", "bounds"]

# What `all_to_all_single` comes to, past all that it looks at again in each call; not a name that torch promises.
_swapped: Callable[..., Any] | None = getattr(dist.ProcessGroup, "alltoall_base", None)

_CPU = torch.device("cpu")
# This rank, how many there are, and whether they exchange what is on a device.
_seats: "WeakKeyDictionary[dist.ProcessGroup, tuple[int, int, bool]]" = WeakKeyDictionary()


def _seat(group: "dist.ProcessGroup") -> tuple[int, int, bool]:
    found = _seats.get(group)
    if found is None:
        found = _seats[group] = group.rank(), group.size(), _on_device(group)
    return found


def _on_device(group: "dist.ProcessGroup") -> bool:
    """Whether a group exchanges what is on a device, and nothing else."""
    try:
        return dist.get_backend(group) == "nccl"
    except ValueError:  # a group that was made past `torch.distributed`, as torchft's are
        return _CPU not in group._device_types


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
class Lane:
    """The ranks of a `torch.distributed` group as senders and receivers; all ranks by default.

    What they exchange must be on `device`. `places` has the coordinates of each rank's slice, `start` and `stop` those
    of this rank.
    """

    def __init__(self, group: "dist.ProcessGroup | None" = None) -> None:
        self.group = group
        outside: Any = dist.GroupMember.NON_GROUP_MEMBER
        if group == outside:
            refuse("This rank is not in the group. Call on the ranks of the group only.")
        self.rank, self.count, on_device = _seat(self.members)
        self.device = torch.device("cuda", torch.cuda.current_device()) if on_device else _CPU
        self.cover(0)

    @property
    def members(self) -> "dist.ProcessGroup":
        """The group, also where it is the default one, which is not kept: it must end when it is destroyed."""
        members = dist.group.WORLD if self.group is None else self.group
        if members is None:
            refuse("The ranks need a group and there is none. Call torch.distributed.init_process_group first.")
        return members

    def cover(self, d: int) -> None:
        """Share out another number of coordinates."""
        self.places = [bounds(d, self.count, rank) for rank in range(self.count)]
        self.start, self.stop = self.places[self.rank]

    def all_to_all(
        self, received: torch.Tensor, sent: torch.Tensor, into: Sequence[int] = (), out: Sequence[int] = ()
    ) -> None:
        """Send each rank a part of one tensor and receive a part of another from each, of these sizes or equal ones."""
        if _swapped is not None and self.device.type == "cpu":
            _swapped(self.members, received, sent, into, out).wait()
        else:
            dist.all_to_all_single(received, sent, list(into), list(out), group=self.members)

    # The group's own methods, and not the functions of `torch.distributed`: these know no group that others have made.

    def broadcast(self, tensor: torch.Tensor) -> None:
        """Replace a tensor on all ranks by that of the first."""
        self.members.broadcast([tensor], dist.BroadcastOptions()).wait()

    def reduce(self, tensor: torch.Tensor, *, maximum: bool) -> None:
        """Replace a tensor on the first rank by the sum, or the maximum, of all."""
        options = dist.ReduceOptions()
        options.reduceOp = dist.ReduceOp.MAX if maximum else dist.ReduceOp.SUM  # type: ignore[assignment]  # torch's stubs want the class of the constant
        self.members.reduce([tensor], options).wait()

    def gather(self, every: torch.Tensor, own: torch.Tensor) -> None:
        """Fill a flat tensor on all ranks with the flat tensors of all, one after another."""
        self.members._allgather_base(every, own).wait()

    def exchange(self, sent: "Sequence[torch.Tensor | None]", received: "Sequence[torch.Tensor | None]") -> list[Any]:
        """Begin to send each of the other ranks a tensor and to receive one from each, where there is one.

        For what goes to several ranks as it is: `all_to_all` would need a copy for each of them.
        """
        group, peers = self.members, [(self.rank + step) % self.count for step in range(1, self.count)]
        into = [(rank, part) for rank in reversed(peers) if (part := received[rank]) is not None and part.numel()]
        out = [(rank, part) for rank in peers if (part := sent[rank]) is not None and part.numel()]
        if self.device.type == "cpu":  # past what `isend` and `irecv` look at again for each of them
            return [group.recv([part], rank, 0) for rank, part in into] + [
                group.send([part], rank, 0) for rank, part in out
            ]
        batch = [dist.P2POp(dist.irecv, part, group=group, group_peer=rank) for rank, part in into]
        batch += [dist.P2POp(dist.isend, part, group=group, group_peer=rank) for rank, part in out]
        return dist.batch_isend_irecv(batch) if batch else []
