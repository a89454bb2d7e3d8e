"""What ranks do in the tests of a rank that comes late to the hook, or not at all."""

import datetime
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import mixtailor as mt
from mixtailor.engines.distributed import RobustHook

LATE = 2
PATIENCE = datetime.timedelta(seconds=15)


def _step(model, rank):
    model.zero_grad()
    model(torch.full((1, 2), float(rank))).sum().backward()
    return model.module.weight.grad.reshape(-1).tolist()


def late(rank, count):
    """One step for which a rank is late, and one for which it does not come, in a group of little patience."""
    hook = RobustHook(mt.Comed())
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    model.register_comm_hook(None, hook)
    time.sleep(3.0 * (rank == LATE))
    waited = _step(model, rank)
    impatient = dist.new_group(timeout=PATIENCE)
    hook = RobustHook(mt.Comed(), impatient)
    model = DistributedDataParallel(torch.nn.Linear(2, 1), process_group=impatient)
    model.register_comm_hook(None, hook)
    dist.barrier()
    said = None
    if rank != LATE:
        try:
            _step(model, rank)
        except RuntimeError as error:
            said = str(error)
    return waited, said, hook.last is None
