"""A rank by itself that trains by the optimizer and by the hook, destroys its group, and names gloo's threads."""

import gc
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import mixtailor as mt
from mixtailor.engines.distributed import Peers, RobustHook, RobustOptimizer


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.Linear(2, 1)
    steps = torch.optim.SGD(model.parameters(), lr=0.1)
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(None, RobustHook(mt.Comed()))
    wrapped(torch.ones(4, 2)).sum().backward()
    steps.step()
    del wrapped
    gc.collect()
    optimizer = RobustOptimizer(steps, Peers(mt.Comed()))
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    assert "gloo" in threads(), "the test knows gloo's threads by their names"
    dist.destroy_process_group()
    print(f"left: {threads()}")


def threads():
    tasks = Path("/proc/self/task")
    return " ".join(name for task in os.listdir(tasks) if "gloo" in (name := (tasks / task / "comm").read_text()))


if __name__ == "__main__":
    main()
