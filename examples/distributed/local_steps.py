"""Train with few exchanges: 20 local steps on each rank, then one outer step along what a rule makes of all of them.

    torchrun --nproc-per-node 4 examples/distributed/local_steps.py

As in DiLoCo (Douillard et al., 2023), local steps are AdamW's and the outer step is SGD's with Nesterov momentum. The
last rank has poisoned data. This protects against faulty updates on honest hosts, not against a compromised rank.
"""

import argparse
import os

import torch
import torch.distributed as dist
from train import batch, new_model, pool, report

from mixtailor.engines.distributed import LocalSteps, Peers, RobustOptimizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--local", type=int, default=20, help="local steps between two exchanges")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    model = new_model()
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    optimizer = LocalSteps(
        torch.optim.AdamW(model.parameters(), lr=0.003),
        RobustOptimizer(outer, Peers(pool(count))),
        every=arguments.local,
    )
    for step in range(arguments.rounds * arguments.local):
        inputs, targets = batch(rank, step, poisoned=rank == count - 1)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()  # type: ignore[no-untyped-call]  # torch's
        optimizer.step()
    if rank == 0:
        report(model, f"{count} peers, {arguments.rounds} exchanges")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
