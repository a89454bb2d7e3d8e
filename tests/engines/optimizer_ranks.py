"""What ranks do in the tests of `RobustOptimizer`, and of `GradScaler` with it and with the hook."""

import warnings

import numpy as np
import torch
from engines.peer_ranks import data
from torch.nn.parallel import DistributedDataParallel

import mixtailor as mt
from mixtailor._checks import FaultError
from mixtailor.engines.distributed import Peers, RobustHook, RobustOptimizer

F = 1


def _message(function):
    try:
        function()
    except (ValueError, FaultError) as error:
        return str(error)
    return None


def scheduled(rank, count):
    """A scheduler on the wrapper, a step, a checkpoint into another wrapper, one more step there."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = RobustOptimizer(torch.optim.AdamW(model.parameters(), lr=0.1), Peers(mt.Comed()))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    inputs, targets = data(rank)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item(), optimizer.step(closure).item()]
    schedule.step()
    again = RobustOptimizer(torch.optim.AdamW(model.parameters(), lr=7.0), Peers(mt.Comed()))
    again.load_state_dict(optimizer.state_dict())
    same_state = again.state is again.optimizer.state and again.param_groups is again.optimizer.param_groups
    again.step(closure)
    moments = again.state[model.weight]["step"]
    return losses, again.param_groups[0]["lr"], float(moments), same_state, again.last.n


def unused(rank, count):
    """Parameters without a gradient on all ranks, on some ranks, on no rank."""
    never, sometimes, always = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
    inner = torch.optim.AdamW([never, sometimes, always], lr=0.1, weight_decay=0.5)
    optimizer = RobustOptimizer(inner, Peers(mt.Mean()))
    loss = (always * (rank + 1.0)).sum()
    if rank == 1:
        loss = loss + sometimes.sum()
    loss.backward()
    optimizer.step()
    return never.grad is None, never.tolist(), sometimes.grad.tolist(), always.grad.tolist()


def refused(rank, count):
    """What is said where no rule could protect: DDP before and after, the same gradients, LBFGS, sparse gradients."""
    found = {}
    model = torch.nn.Linear(3, 1)
    early = RobustOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), Peers(mt.Comed()))
    wrapped = DistributedDataParallel(model)
    found["after"] = _message(lambda: RobustOptimizer(torch.optim.SGD(wrapped.parameters(), lr=0.1), Peers(mt.Comed())))
    found["before"] = _message(early.step)
    weight = torch.nn.Parameter(torch.ones(2))

    def averaged(**options):
        optimizer = RobustOptimizer(torch.optim.SGD([weight], lr=0.1), Peers(mt.Comed()), **options)
        weight.grad = torch.full((2,), (count - 1) / 2)  # what an all_reduce over the ranks would leave
        optimizer.step()

    found["equal"] = _message(averaged)
    found["meant"] = _message(lambda: averaged(same_data=True))
    found["closure"] = _message(lambda: RobustOptimizer(torch.optim.LBFGS([weight]), Peers(mt.Comed())))
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = RobustOptimizer(torch.optim.SGD(table.parameters(), lr=0.1), Peers(mt.Comed()))
    table(torch.tensor([rank % 4])).sum().backward()
    found["sparse"] = _message(optimizer.step)
    return found


def checked_later(rank, count):
    """Steps with nothing to compare, then one with averaged gradients; DDP made after the first step; all frozen."""
    found, weight = {}, torch.nn.Parameter(torch.ones(2))

    def first(gradient):
        optimizer = RobustOptimizer(torch.optim.SGD([weight], lr=0.1), Peers(mt.TrimmedMean(F), on_fault="skip"))
        weight.grad = gradient
        optimizer.step()
        weight.grad = torch.ones(2)
        optimizer.step()

    found["zeros"] = _message(lambda: first(torch.zeros(2)))
    found["overflow"] = _message(lambda: first(torch.full((2,), float("inf"))))
    model = torch.nn.Linear(2, 1)
    optimizer = RobustOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), Peers(mt.Comed()))

    def steps(module):
        for _ in range(4):
            optimizer.zero_grad()
            module(torch.full((1, 2), 1.0 + rank)).sum().backward()
            optimizer.step()

    found["plain"] = _message(lambda: steps(model))
    found["late"] = _message(lambda: steps(DistributedDataParallel(model)))
    weight.requires_grad_(False)
    found["frozen"] = _message(RobustOptimizer(torch.optim.SGD([weight], lr=0.1), Peers(mt.Comed())).step)
    return found


def _scaler():
    return torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)


def scaled_optimizer(rank, count):
    """With a scaler: one rank overflows, all but one do, all do. Steps taken, scales, and the weight."""
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = RobustOptimizer(torch.optim.SGD([weight], lr=1.0), Peers(mt.TrimmedMean(F)))
    scaler, found = _scaler(), []
    for overflowing in ((), (0,), range(1, count), range(count), ()):
        optimizer.zero_grad()
        scaler.scale((weight * (1.0 + rank)).sum()).backward()
        if rank in overflowing:
            weight.grad[0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        found.append((weight.tolist(), scaler.get_scale(), optimizer.skipped))
    return found


def scaled_hook(rank, count, on_fault="raise"):
    """The same through DDP and the hook."""
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(None, RobustHook(mt.TrimmedMean(F), on_fault=on_fault))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler, found = _scaler(), []
    for overflowing in ((), (0,), range(1, count), range(count), ()):
        optimizer.zero_grad()
        inputs = torch.full((1, 2), 1.0 + rank)
        if rank in overflowing:
            inputs[0, 0] = float("inf")
        scaler.scale(wrapped(inputs).nan_to_num(0.0).sum()).backward()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scaler.step(optimizer)
        scaler.update()
        found.append((model.weight.detach().reshape(-1).tolist(), scaler.get_scale()))
    return found


def hook_without_scaler(rank, count):
    """Where no scaler is in use, more faults than f end training."""
    wrapped = DistributedDataParallel(torch.nn.Linear(2, 1))
    wrapped.register_comm_hook(None, RobustHook(mt.TrimmedMean(F)))
    return _message(lambda: wrapped(torch.full((1, 2), float("nan"))).sum().backward())


def clipped(rank, count):
    """Two backward passes, then one step along the aggregate of their sums, clipped to a length of 1."""
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = RobustOptimizer(torch.optim.SGD([weight], lr=1.0), Peers(mt.Comed()), max_norm=1.0)
    for _ in range(2):
        (weight * torch.tensor([3.0, 4.0, 0.0]) * (rank + 1.0)).sum().backward()
    optimizer.step()
    return weight.tolist()


def compiled(rank, count):
    """A whole training step inside `torch.compile`: rules and exchanges stay outside of its graph."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = RobustOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), Peers(mt.Krum(F)))
    inputs, targets = data(rank)

    @torch.compile(backend="eager")
    def step():
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        step()
    return np.concatenate([item.detach().numpy().reshape(-1) for item in model.parameters()]), optimizer.last.n


def everything(rank, count):
    """All of it in one group; the hook without a scaler before there is one."""
    bodies = (hook_without_scaler, scheduled, unused, refused, scaled_optimizer, scaled_hook, clipped, compiled)
    bodies += (checked_later,)
    return {body.__name__: body(rank, count) for body in bodies} | {"skip": scaled_hook(rank, count, "skip")}
