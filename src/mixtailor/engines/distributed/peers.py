"""Peers: every rank is worker and aggregator, as in plain data-parallel training.

Sound against faulty gradients and poisoned data on honest hosts. NOT sound against a compromised rank: it computes a
slice of everybody's answer.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.distributed as dist

from mixtailor._checks import refuse
from mixtailor.engines.distributed.alike import computing, host
from mixtailor.engines.distributed.keys import SharedKey, source_of
from mixtailor.kernels import threads
from mixtailor.mixing.entropy import KEY_BYTES
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import KeySource, OnFault, Rule, as_rule
from mixtailor.updates.sharded import Sharded, Shards, bounds

__all__ = ["TYPES", "Peers", "robust_all_reduce"]

# Types that travel, by the number that stands for them.
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

_Form: TypeAlias = tuple[int, torch.dtype]  # the number of coordinates, and their type


def robust_all_reduce(
    tensor: torch.Tensor,
    rule: Any,
    group: "dist.ProcessGroup | None" = None,
    *,
    reference: torch.Tensor | None = None,
    entropy: KeySource | None = None,
    on_fault: OnFault = "raise",
) -> Aggregation:
    """Replace every rank's tensor by the rule's answer on all of them: `all_reduce` by a robust rule.

    Ranks exchange slices (`all_to_all`), each aggregates all rows of its slice, and the answers are gathered. Row i is
    rank i of the group. All ranks call it with the same rule.

    Parameters
    ----------
    tensor : Tensor
        This rank's update, of any shape and floating type; overwritten by the answer.
    rule : rule or callable
        What aggregates; a callable from an (n, d) matrix gets whole rows on every rank.
    group : ProcessGroup, optional
        The ranks that take part; all of them by default.
    reference : Tensor, optional
        What the caller trusts, whole, the same on all ranks.
    entropy : KeySource, optional
        Where the first rank takes the call's key from: the rule's own source by default.
    on_fault : {"raise", "skip"}
        What to do when more rows are provably faulty than the rule withstands; "skip" fills the tensor with zeros.

    Returns
    -------
    Aggregation
        What happened, the same on all ranks; `update` is the tensor, or None where the round was skipped.

    Examples
    --------
    On a group of one, whose answer is its own row; with more ranks, the call is the same.

    >>> import mixtailor as mt
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> gradient = torch.tensor([1.0, 2.0])
    >>> robust_all_reduce(gradient, mt.Comed()).quarantined, gradient
    ((), tensor([1., 2.]))
    >>> dist.destroy_process_group()

    Notes
    -----
    A rank whose tensor is not of the length or type that most have counts as faulty, takes part in the exchange so that
    the others can go on, and raises afterwards. Sound against faulty gradients on honest hosts, not against a
    compromised rank.
    """
    wanted = as_rule(rule)
    if not tensor.is_floating_point():
        raise TypeError(f"robust_all_reduce needs a tensor of floating-point numbers and got {tensor.dtype}.")
    if tensor.dtype not in TYPES:
        raise TypeError(f"robust_all_reduce needs one of {[str(kind) for kind in TYPES]} and got {tensor.dtype}.")
    source = source_of(wanted) if entropy is None else entropy
    shards = Shards(0, group)
    agreed, exchange = _met(tensor, source, shards)
    sound, flat = shards.rank not in agreed.faults, exchange.flat
    kept = [row for row in range(shards.count) if row not in agreed.faults]
    with exchange as rows, threads.shared(agreed.neighbours):
        result = wanted.aggregate(
            Sharded.of(rows[kept] if agreed.faults else rows, shards, faults=agreed.faults),
            reference=None if reference is None else reference.detach().reshape(-1)[shards.start : shards.stop],
            entropy=SharedKey(shards, source, {"preaggregation": agreed.key}),
            on_fault=on_fault,
        )
    _spread(result.update, flat, shards, _owner(result) if shards.alike else None)
    if not sound:
        refuse(
            f"robust_all_reduce needs the same length and type on all ranks: this rank has {tensor.numel()} "
            f"coordinates of {tensor.dtype}, most have {agreed.form[0]} of {agreed.form[1]}. The others went "
            "on without it."
        )
    if flat.data_ptr() != tensor.data_ptr():  # a tensor that is not contiguous
        with torch.no_grad():
            tensor.copy_(flat.view(tensor.shape))
    return replace(result, update=None if result.update is None else tensor)


@dataclass(frozen=True)
class _Agreed:
    """The length and type that most ranks have, the ranks that have another, the first rank's key, whether all ranks
    compute alike, and how many of them are on this host."""

    form: _Form
    faults: dict[int, str]
    key: bytes
    alike: bool
    neighbours: int


def _agreeing(tensor: torch.Tensor, source: KeySource, shards: Shards) -> Callable[[], _Agreed]:
    """Begin what the ranks tell one another first, in one message; the call that is returned waits for the end.

    The key for what a rule does with randomness, which every call asks for, comes along: among peers nobody chooses
    an update after having seen it. A draw of the rule itself has a key of its own, after the exchange.
    """
    key = source.key("preaggregation") if shards.rank == 0 else bytes(KEY_BYTES)
    own = [tensor.numel(), TYPES.index(tensor.dtype), computing(), host()]
    telling = shards.gathering(np.concatenate([own, np.frombuffer(key, np.int64)]))

    def end() -> _Agreed:
        told = telling()
        every = [(length, kind) for length, kind in told[:, :2].tolist()]
        (d, place), _ = Counter(sorted(every)).most_common(1)[0]  # of equally many, the smaller on all ranks
        faults = {
            rank: f"{length} coordinates of {TYPES[kind]} where most have {d} of {TYPES[place]}"
            for rank, (length, kind) in enumerate(every)
            if (length, kind) != (d, place)
        }
        alike = bool((told[:, 2] == told[0, 2]).all())
        neighbours = int((told[:, 3] == host()).sum())
        return _Agreed((d, TYPES[place]), faults, told[0, 4:].tobytes(), alike, neighbours)

    return end


# What the ranks of a group agreed on in their last call.
_last: "WeakKeyDictionary[dist.ProcessGroup, _Form]" = WeakKeyDictionary()


def _met(tensor: torch.Tensor, source: KeySource, shards: Shards) -> "tuple[_Agreed, _Exchange]":
    """What the ranks agree on, and the exchange of their slices, which is under way.

    Slices leave before it is known whether all ranks have the length and type that they had in the last call, on which
    all agreed: a call then waits once and not twice. A rank that has others sends zeros, and if most have, the
    exchange is made again.
    """
    group = shards.group or dist.group.WORLD
    assert group is not None, "Shards was made, so there is a group"
    agreeing = _agreeing(tensor, source, shards)
    guessed = _last.get(group)
    exchange = None if guessed is None else _Exchange(tensor, guessed, shards)
    agreed = agreeing()
    if exchange is None or agreed.form != guessed:
        if exchange is not None:
            with exchange:  # its memory is written to until it ends
                pass
        exchange = _Exchange(tensor, agreed.form, shards)
    _last[group] = agreed.form
    shards.alike = agreed.alike
    return agreed, exchange


# Rooms for rows that are not in use, by type and device. A fresh one would cost as much as sending what goes into it:
# the system hands out large blocks page by page.
_rooms: dict[tuple[torch.dtype, torch.device], torch.Tensor] = {}


class _Exchange:
    """This rank's slice of every rank's vector, a row each, for as long as the block lasts."""

    def __init__(self, tensor: torch.Tensor, form: _Form, shards: Shards) -> None:
        d, dtype = form
        shards.cover(d)
        fits = (tensor.numel(), tensor.dtype) == form
        self.flat = tensor.detach().reshape(-1) if fits else torch.zeros(d, dtype=dtype, device=tensor.device)
        widths = [stop - start for start, stop in (bounds(d, shards.count, rank) for rank in range(shards.count))]
        own = widths[shards.rank]
        self._key = dtype, tensor.device
        room = _rooms.pop(self._key, None)  # whoever takes it has it alone
        if room is None or not shards.count * own <= room.numel() <= 2 * shards.count * own:
            room = self.flat.new_empty(shards.count * own)
        self._room, rows = room, room[: shards.count * own]
        self._rows = rows.view(shards.count, own)
        # As bytes: not every backend knows every floating type, and nothing is computed on the way.
        size = self.flat.element_size()
        self._work = dist.all_to_all_single(
            rows.view(torch.uint8),
            self.flat.view(torch.uint8),
            [own * size] * shards.count,
            [width * size for width in widths],
            group=shards.group,
            async_op=True,
        )

    def __enter__(self) -> torch.Tensor:
        self._work.wait()
        return self._rows

    def __exit__(self, *_error: object) -> None:
        _rooms[self._key] = self._room


def _owner(result: Aggregation) -> int | None:
    """The rank whose own vector is the answer, if it is one's."""
    if result.weights is None:
        return None
    used = np.nonzero(result.weights)[0]
    return int(used[0]) if len(used) == 1 and result.weights[used[0]] == 1.0 else None


def _spread(own: torch.Tensor | None, flat: torch.Tensor, shards: Shards, owner: int | None) -> None:
    """Fill a vector with the slices of all ranks, in place; with zeros where there is no answer.

    A rank whose vector is the answer has it already.
    """
    if own is None:
        flat.zero_()
        return
    # Each rank sends its slice to each: gloo's all_gather would go through a copy of the whole, in fresh memory.
    whole = flat.view(torch.uint8)
    if shards.rank != owner:
        flat[shards.start : shards.stop] = own
    messages = []
    for step in range(1, shards.count):
        to, source = (shards.rank + step) % shards.count, (shards.rank - step) % shards.count
        for call, rank, holder, target in (
            (dist.irecv, source, source, shards.rank),
            (dist.isend, to, shards.rank, to),
        ):
            start, stop = (place * flat.element_size() for place in bounds(shards.d, shards.count, holder))
            if start < stop and target != owner:
                messages.append((call, whole[start:stop], rank))
    for message in _begun(messages, shards):
        message.wait()


def _begun(messages: "list[tuple[Callable[..., Any], torch.Tensor, int]]", shards: Shards) -> list[Any]:
    """Messages between pairs of ranks, under way."""
    if shards.device.type == "cpu":
        return [
            call(part, group=shards.group, **{"group_dst" if call is dist.isend else "group_src": rank})
            for call, part, rank in messages
        ]
    batch = [dist.P2POp(call, part, group=shards.group, group_peer=rank) for call, part, rank in messages]
    return dist.batch_isend_irecv(batch) if batch else []


@dataclass(frozen=True)
class Peers:
    """All ranks of a group as workers and aggregators, for `RobustOptimizer`.

    Parameters
    ----------
    rule : rule or callable
    group : ProcessGroup, optional
        All ranks by default.
    entropy : KeySource, optional
        Where the first rank takes keys from: the rule's own source by default.
    on_fault : {"raise", "skip"}
        With "skip", a round with more proven faults than the rule withstands changes nothing.
    """

    rule: Rule
    group: Any = None
    entropy: KeySource | None = None
    on_fault: OnFault = "raise"

    def exchange(self, vector: torch.Tensor) -> torch.Tensor | None:
        """The answer on all ranks' vectors, in place; None where the round was skipped."""
        result = robust_all_reduce(vector, self.rule, self.group, entropy=self.entropy, on_fault=self.on_fault)
        return vector if result.update is not None else None
