"""What ranks do in the tests of peers, the hook and the optimizer."""

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import mixtailor as mt
from mixtailor._checks import FaultError
from mixtailor.engines.distributed import Peers, RobustHook, RobustOptimizer, lane, peers, robust_all_reduce
from mixtailor.engines.distributed.keys import SharedKey
from mixtailor.engines.distributed.ranks import Ranks

RULES = (
    mt.Krum(1),
    mt.Comed(),
    mt.NNM(1) >> mt.TrimmedMean(1),
    mt.MixTailor([mt.Krum(1), mt.Comed(), mt.Krum(1, p=3)]),
)


# One asks before it writes an answer, one writes at once, and one asks for randomness first.
BY_LENGTH = (mt.Krum(1), mt.Comed(), mt.Bucketing(size=1) >> mt.Comed())
# On all ranks, on all but one, on one, on all but one again; then in turn, so that the next is known, until it is not.
LENGTHS = (
    (23, 23),
    (9, 9),
    (15, 9),
    (15, 4),
    (2, 15),
    (2, 2),
    (9, 9),
    (2, 2),
    (9, 9),
    (2, 2),
    (9, 2),
    (2, 2),
    (23, 23),
)

DRAWN = (23, 5, 19, 4, 21, 6, 17, 8)


def vectors(count, d=23):
    return np.random.default_rng(5).normal(size=(count, d))


def answers(rank, count):
    """`robust_all_reduce` by several rules, with all rows sound, one NaN, one of another length."""
    found = {}
    for place, rule in enumerate(RULES):
        for kind in (torch.float64, torch.float32, torch.bfloat16):
            tensor = torch.from_numpy(vectors(count)[rank]).to(kind).reshape(1, 23)
            result = robust_all_reduce(tensor, rule, entropy=mt.SeededEntropy(3))
            assert result.update is tensor
            found[place, str(kind)] = tensor.reshape(-1).to(torch.float64).numpy(), repr(result.rule), result.selected
    broken = torch.from_numpy(vectors(count)[rank])
    if rank == 3:
        broken[-1] = float("nan")
    result = robust_all_reduce(broken, mt.Krum(1))
    found["NaN"] = broken.numpy(), [(item.row, item.reason) for item in result.quarantined]
    short = torch.from_numpy(vectors(count)[rank])[: 20 if rank == 2 else 23].clone()
    try:
        result = robust_all_reduce(short, mt.Krum(1))
        found["short"] = short.numpy(), [(item.row, item.reason) for item in result.quarantined]
    except ValueError as error:
        found["short"] = str(error)
    found["skipped"] = _skipped(rank, count)
    tensor = torch.from_numpy(vectors(count)[rank])
    trusted = torch.from_numpy(vectors(count).mean(axis=0))
    robust_all_reduce(tensor, mt.FLTrust(), reference=trusted)
    found["reference"] = tensor.numpy()
    shorter = torch.from_numpy(vectors(count)[rank, :11].copy())  # another length than in the call before
    robust_all_reduce(shorter, mt.FLTrust(), reference=trusted[:11])
    found["shorter reference"] = shorter.numpy()
    found["lengths"] = [_lengths(rank, count, rule) for rule in BY_LENGTH]
    found["drawn"] = _drawn(rank, count)
    found["untouched"] = _untouched(rank, count)
    found["messages"] = _messages(rank, count)
    found["unlike"] = _unlike(rank, count)
    found["key"] = SharedKey(Ranks(23), mt.SystemEntropy()).key("draw")
    return found


def _skipped(rank, count):
    """Two NaN ranks where f is one: an error that names both, or zeros."""
    tensor = torch.full((7,), float("nan") if rank in (0, 4) else 1.0 + rank)
    try:
        robust_all_reduce(tensor.clone(), mt.Krum(1))
    except FaultError as error:
        rows = error.rows
    result = robust_all_reduce(tensor, mt.Krum(1), on_fault="skip")
    return rows, result.update is None, tensor.tolist()


def _lengths(rank, count, rule):
    """Calls whose length is not that of the call before: what most ranks have, and what rank 1 has."""
    found = []
    for most, odd in LENGTHS:
        tensor = torch.from_numpy(vectors(count)[rank])[: odd if rank == 1 else most].clone()
        try:
            robust_all_reduce(tensor, rule)
            found.append(tensor.numpy())
        except ValueError as error:
            found.append(str(error))
    return found


def _drawn(rank, count):
    """What a seeded mixture draws where lengths change from call to call."""
    entropy, rule = mt.SeededEntropy(9), RULES[-1]
    rows = torch.from_numpy(vectors(count))
    return [repr(robust_all_reduce(rows[rank, :d].clone(), rule, entropy=entropy).rule) for d in DRAWN]


def _untouched(rank, count):
    """More faults than the rule withstands, found when the answer was half written: each tensor is as it was."""
    tensor = torch.full((40,), float("nan") if rank < 3 else float(rank))
    tensor[:30] = float(rank)
    before = tensor.clone()
    try:
        robust_all_reduce(tensor, mt.Comed())
    except FaultError as error:
        return error.rows, bool(torch.equal(tensor.nan_to_num(), before.nan_to_num()))
    return None


def _messages(rank, count):
    """How many exchanges a call of Krum makes where the length is known: slices, and sums.

    By the way that is quick, and by that of a torch that does not have it; and the answer of the latter.
    """
    robust_all_reduce(torch.from_numpy(vectors(count)[rank]), mt.Krum(1))
    robust_all_reduce(torch.from_numpy(vectors(count)[rank]), mt.Krum(1))
    quick, plain = [], []
    swapped, single = lane._swapped, dist.all_to_all_single
    tensor = torch.from_numpy(vectors(count)[rank])
    lane._swapped = lambda *args: quick.append(args) or swapped(*args)
    dist.all_to_all_single = lambda *args, **options: plain.append(args) or single(*args, **options)
    try:
        robust_all_reduce(tensor.clone(), mt.Krum(1))
        lane._swapped = None
        robust_all_reduce(tensor, mt.Krum(1))
    finally:
        lane._swapped, dist.all_to_all_single = swapped, single
    return len(quick), len(plain), tensor.numpy()


def _unlike(rank, count):
    """Ranks that run on different processors: the word of the first counts."""
    alike = peers.computing
    peers.computing = lambda: rank
    peers._standings.clear()  # ranks tell it in their first call only
    try:
        tensor = torch.from_numpy(vectors(count)[rank])
        robust_all_reduce(tensor, mt.Krum(1))
        return tensor.numpy()
    finally:
        peers.computing = alike
        peers._standings.clear()


class TwoLayers(torch.nn.Module):
    """A model whose gradients are its input, so that a test can give each rank the gradients it likes."""

    def __init__(self, width):
        super().__init__()
        self.first = torch.nn.Parameter(torch.zeros(width))
        self.second = torch.nn.Parameter(torch.zeros(width))

    def forward(self, pair):
        return (self.first * pair[0]).sum() + (self.second * pair[1]).sum()


def gradients(count, width=300_000):
    """Rows of which Krum takes another in the first half than in the second, and a third in the whole.

    Each half is a constant c, so distances in it are |c - c'|: half one favours row 0, half two favours row 1, and the
    sum of squares favours row 2, second best in both.
    """
    halves = np.array([[0.0, 9.0], [9.0, 0.0], [1.0, 1.0], [-1.0, -1.2], [2.1, 2.3]])[:count]
    return np.repeat(halves, width, axis=1).reshape(count, 2, width)


def hooked(rank, count):
    """Gradients that DDP leaves on this rank, by our hook over whole vectors, in several buckets, for two steps."""
    rows = gradients(count)
    width = rows.shape[2]
    # 1 MB buckets: each of the two layers, 1.2 MB, fills one.
    model = DistributedDataParallel(TwoLayers(width), bucket_cap_mb=1)
    hook = RobustHook(mt.Krum(1))
    seen = []

    def counting(state: object, bucket):
        seen.append(bucket.index())
        return hook(state, bucket)

    model.register_comm_hook(None, counting)
    found = []
    for _ in range(3):
        model.zero_grad()
        model(torch.from_numpy(rows[rank]).to(torch.float32)).backward()
        found.append((float(model.module.first.grad[0]), float(model.module.second.grad[-1]), hook.last.selected))
    return found, seen


def registered(rank, count):
    """The hook itself is accepted by DDP, and trains a model with an attacker among the ranks."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    model.register_comm_hook(None, RobustHook(mt.MixTailor([mt.Krum(1), mt.Comed()])))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return _trained(model, optimizer, rank, count, 40)


def optimized(rank, count):
    """`RobustOptimizer` with peers, an attacker among the ranks."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = RobustOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), Peers(mt.Krum(1)))
    return _trained(model, optimizer, rank, count, 40)


def everything(rank, count):
    """All of the above in one group: processes are what costs time here."""
    return {body.__name__: body(rank, count) for body in (answers, hooked, registered, optimized)}


def data(rank, size=64):
    inputs = torch.from_numpy(np.random.default_rng(rank).normal(size=(size, 3))).to(torch.float32)
    return inputs, inputs @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3


def _trained(model, optimizer, rank, count, steps):
    inputs, targets = data(rank)
    if rank == count - 1:
        targets = -100.0 * targets
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return np.concatenate([item.detach().numpy().reshape(-1) for item in model.parameters()])
