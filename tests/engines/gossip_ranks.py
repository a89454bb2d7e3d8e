"""What ranks do in the tests of gossip."""

import datetime
import os
import signal
import time

import torch
import torch.distributed as dist

import mixtailor as mt
from mixtailor.engines.distributed import Gossip


def agreeing(rank, count, folder, kills):
    """Six or more ranks on a complete graph average their vectors; one sends garbage, and one is killed."""
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/gossip",
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=60),
    )
    gossip = Gossip(mt.MoNNA(2), [other for other in range(count) if other != rank], timeout=20.0)
    model = torch.full((5,), float(rank % 4))
    for number in range(6):
        if kills and rank == count - 1 and number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 0:
            gossip(torch.full((5,), 1e6 * (number + 1)))  # Byzantine: its own result does not matter
        else:
            gossip(model)
    (folder / f"done{rank}").touch()
    expected = count - kills
    deadline = time.monotonic() + 60
    while len(list(folder.glob("done*"))) < expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return model.tolist(), gossip.absent
