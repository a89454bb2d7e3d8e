"""Peers: every rank is worker and aggregator, as in plain data-parallel training.

Sound against faulty gradients and poisoned data on honest hosts. NOT sound against a compromised rank: it computes a
slice of the result of all ranks.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
import torch.distributed as dist

from mixtailor._checks import refuse
from mixtailor._types import Integers
from mixtailor.engines.distributed.exchange import Exchange, Form
from mixtailor.engines.distributed.hosts import computing, host
from mixtailor.engines.distributed.keys import SentKey, SharedKey, source_of
from mixtailor.engines.distributed.ranks import Ranks
from mixtailor.engines.distributed.wrappers import is_dtensor
from mixtailor.kernels import threads
from mixtailor.mixing.entropy import KEY_BYTES, SystemEntropy
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import Rule
from mixtailor.rules.plain import as_rule
from mixtailor.rules.request import KeySource, OnFault
from mixtailor.updates.reader import only_row

__all__ = ["TYPES", "Peers", "check_type", "reduced", "robust_all_reduce"]

Forms: TypeAlias = tuple[Form, ...]  # for each shard; one where updates are not sharded

# Types that travel, by the number that stands for them.
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def robust_all_reduce(
    tensor: torch.Tensor,
    rule: Any,
    group: "dist.ProcessGroup | None" = None,
    *,
    reference: torch.Tensor | None = None,
    entropy: KeySource | None = None,
    on_fault: OnFault = "raise",
) -> Aggregation:
    """Replace every rank's tensor by the rule's result on all of them: `all_reduce` by a robust rule.

    Ranks exchange slices (`all_to_all`), each aggregates all updates of its slice, and the results are gathered. Update
    i is rank i of the group. All ranks call it with the same rule.

    Parameters
    ----------
    tensor : Tensor
        This rank's update, of any shape and floating type; overwritten by the result.
    rule : rule or callable
        What aggregates; a callable from an (n, d) matrix gets whole updates on every rank.
    group : ProcessGroup, optional
        The ranks that take part; all of them by default.
    reference : Tensor, optional
        What the caller trusts, whole, the same on all ranks.
    entropy : KeySource, optional
        Where the first rank takes the call's key from: the rule's own source by default.
    on_fault : {"raise", "skip"}
        What to do when more updates are provably faulty than the rule tolerates; "skip" fills the tensor with zeros.

    Returns
    -------
    Aggregation
        What happened, the same on all ranks; `update` is the tensor, or None where the round was skipped.

    Examples
    --------
    On a group of one, whose result is its own update; with more ranks, the call is the same.

    >>> import mixtailor as mt
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> gradient = torch.tensor([1.0, 2.0])
    >>> robust_all_reduce(gradient, mt.Comed()).quarantined, gradient
    ((), tensor([1., 2.]))
    >>> dist.destroy_process_group()

    Notes
    -----
    A rank whose tensor is not of the length or type that most have counts as faulty, takes part in the exchange so that
    the others can continue, and raises afterwards. Sound against faulty gradients on honest hosts, not against a
    compromised rank.
    """
    check_type(tensor)
    return reduced(tensor, rule, Ranks(0, group), reference=reference, entropy=entropy, on_fault=on_fault)[0]


def check_type(tensor: torch.Tensor) -> None:
    """Refuse what is no tensor, and a tensor of a type that does not travel."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(
            f"robust_all_reduce needs a torch tensor, which it overwrites, and got {type(tensor).__name__}. "
            "Write torch.from_numpy(array) for an array."
        )
    if not tensor.is_floating_point():
        raise TypeError(f"robust_all_reduce needs a tensor of floating-point numbers and got {tensor.dtype}.")
    if tensor.dtype not in TYPES:
        raise TypeError(f"robust_all_reduce needs one of {[str(kind) for kind in TYPES]} and got {tensor.dtype}.")


def reduced(
    tensor: torch.Tensor,
    rule: Any,
    ranks: Ranks,
    *,
    reference: torch.Tensor | None = None,
    entropy: KeySource | None = None,
    on_fault: OnFault = "raise",
    words: Sequence[int] = (),
) -> tuple[Aggregation, Integers]:
    """`robust_all_reduce` among these ranks, whose updates may be sharded; and the words of all ranks, a row each.

    Words are whole numbers, as many on every rank. They travel with the first exchange and cost no message.
    """
    check_type(tensor)
    if torch.compiler.is_compiling():  # processes wait for one another here, which no graph can hold
        options: dict[str, Any] = {"reference": reference, "entropy": entropy, "on_fault": on_fault, "words": words}
        eager: Callable[..., tuple[Aggregation, Integers]] = torch.compiler.disable(reduced)  # type: ignore[no-untyped-call]  # torch's
        return eager(tensor, rule, ranks, **options)
    wanted = as_rule(rule)
    source = _source(wanted, ranks) if entropy is None else entropy
    standing, key, heard = _met(ranks), SentKey(ranks), list[Integers]()
    # A reference must be cut as the slices are, so its call does not begin with a guess.
    guess = standing.guess() if reference is None else None
    forms, faults = guess, dict[int, str]()
    _tell(tensor, words, source, ranks, standing, guess, key, heard)
    while True:
        try:
            if forms is None:
                ranks.settle()  # whatever they agree on is something else
                continue
            with Exchange(tensor, forms, ranks) as exchange, threads.shared(standing.neighbours):
                own = slice(ranks.lane.start, ranks.lane.stop)
                result = wanted.aggregate(
                    exchange.arrival(faults, reference),
                    reference=None if reference is None else reference.detach().reshape(-1)[own],
                    entropy=SharedKey(ranks, source, {"preaggregation": key}),
                    on_fault=on_fault,
                )
                ranks.settle()
            break
        except _Otherwise as agreed:
            forms, faults = agreed.forms, agreed.faults
    # A rank whose own vector is the result is sent nothing.
    exchange.spread(result.update, only_row(result.weights) if ranks.same_bits and result.weights is not None else None)
    length, dtype = forms[ranks.shard]
    if (tensor.numel(), tensor.dtype) != (length, dtype):
        refuse(
            f"robust_all_reduce needs the same length and type on all ranks: this rank has {tensor.numel()} "
            f"coordinates of {tensor.dtype}, most have {length} of {dtype}. The others went "
            "on without it."
        )
    if exchange.flat.data_ptr() != tensor.data_ptr():  # a tensor that is not contiguous
        with torch.no_grad():
            tensor.copy_(exchange.flat.view(tensor.shape))
    return result if result.update is None else result.with_update(tensor), heard[0]


def _source(rule: Rule, ranks: Ranks) -> KeySource:
    """Where the rule has its keys from; that of other ranks than the first is never asked, nor looked for."""
    return source_of(rule) if ranks.rank == 0 else SystemEntropy()


class _Otherwise(Exception):  # no error, but a turn that all ranks take together
    """The length and type that most ranks have, and the updates that have another: not what was guessed."""

    def __init__(self, forms: Forms, faults: dict[int, str]) -> None:
        super().__init__()
        self.forms, self.faults = forms, faults


@dataclass
class _Standing:
    """What the ranks of a group know of one another from earlier calls, the same on all of them.

    Attributes
    ----------
    same_bits : bool
        Whether all ranks compute the same bits from the same numbers.
    neighbours : int
        How many of them are on this host.
    last : forms, optional
        What most had in the last call, for each shard.
    after : dict
        What most had in the call after one of each kind.
    """

    same_bits: bool
    neighbours: int
    last: Forms | None = None
    after: dict[Forms, Forms] = field(default_factory=dict)

    def guess(self) -> Forms | None:
        return None if self.last is None else self.after.get(self.last, self.last)

    def keep(self, forms: Forms) -> None:
        if len(self.after) > _KEPT:
            self.after.clear()
        if self.last is not None:
            self.after[self.last] = forms
        self.last = forms


_KEPT = 1000  # forms: a model's layers, not every length that ever was
_standings: "WeakKeyDictionary[dist.ProcessGroup, _Standing]" = WeakKeyDictionary()


def _met(ranks: Ranks) -> _Standing:
    """What the ranks know of one another; in the first call of a group they exchange it."""
    group = ranks.members
    standing = _standings.get(group)
    if standing is None:
        told = ranks.gathered(np.array([computing(), host()]))
        same_bits, neighbours = (told[:, 0] == told[0, 0]).all(), (told[:, 1] == host()).sum()
        standing = _standings[group] = _Standing(bool(same_bits), int(neighbours))
    ranks.same_bits = standing.same_bits
    return standing


def _tell(
    tensor: torch.Tensor,
    words: Sequence[int],
    source: KeySource,
    ranks: Ranks,
    standing: _Standing,
    guess: Forms | None,
    key: SentKey,
    heard: list[Integers],
) -> None:
    """Have this rank's length and type travel with what the rule exchanges first, and the first rank's key.

    Slices leave before it is known whether all ranks have the length and type that are expected. A call then waits for
    no message that does nothing else. A rank that has others sends zeros, and all start again with what most have.

    This key is for random steps inside a rule: no peer can choose its update after it has seen the key. The draw of
    the rule itself has another key, after the exchange.
    """
    own = np.frombuffer(bytes(source.key("preaggregation")) if ranks.rank == 0 else bytes(KEY_BYTES), np.int64)
    form, end = [tensor.numel(), TYPES.index(tensor.dtype)], 2 + len(own)

    def hear(told: Integers) -> None:
        key.value = told[0, 2:end].tobytes()
        heard.append(told[:, end:])
        agreed, faults = _agreed([(length, TYPES[kind]) for length, kind in told[:, :2].tolist()], ranks)
        standing.keep(agreed)
        if faults or agreed != guess:
            raise _Otherwise(agreed, faults)

    ranks.say(np.array([*form, *own, *words]), hear)


def _agreed(forms: list[Form], ranks: Ranks) -> tuple[Forms, dict[int, str]]:
    """The form that most updates have on each shard, and what is wrong with the others."""
    agreed, faults = list[Form](), dict[int, str]()
    for shard in range(ranks.shards):
        here = {update: form for (update, where), form in zip(ranks.seats, forms, strict=True) if where == shard}
        # Of equally many, the smaller on all ranks.
        counts = Counter(sorted(here.values(), key=lambda form: (form[0], TYPES.index(form[1]))))
        most, _ = counts.most_common(1)[0]
        agreed.append(most)
        for update, form in here.items():
            if form != most and update not in faults:
                faults[update] = f"{form[0]} coordinates of {form[1]} where most have {most[0]} of {most[1]}"
    return tuple(agreed), faults


@final
@dataclass(frozen=True)
class Peers:
    """All ranks of a group as workers and aggregators, for `RobustOptimizer`.

    Parameters
    ----------
    rule : rule or callable
        What aggregates; a callable from an (n, d) matrix gets whole updates on every rank.
    group : ProcessGroup, optional
        All ranks by default.
    entropy : KeySource, optional
        Where the first rank takes keys from: the rule's own source by default.
    on_fault : {"raise", "skip"}
        With "skip", a round with more proven faults than the rule tolerates changes nothing.
    """

    rule: Rule
    group: Any = None
    entropy: KeySource | None = None
    on_fault: OnFault = "raise"

    def ranks(self) -> Ranks:
        """The ranks that take part in a call."""
        return Ranks(0, self.group)

    def local(self, parameter: torch.Tensor, name: str) -> torch.Tensor:
        """What this rank holds of a parameter or a gradient: all of it."""
        if is_dtensor(parameter):
            refuse(
                f"{name} is a DTensor. Peers hold whole models: use "
                "Replicas(rule, mesh), with the mesh of replicas and shards."
            )
        return parameter
