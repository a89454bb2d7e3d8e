"""Train a sharded model (FSDP2) in several replicas of which the last one has poisoned data.

    torchrun --nproc-per-node 6 examples/distributed/sharded.py --shards 2

Six ranks are three replicas of two shards each. `fully_shard` divides the model inside a replica; the rule aggregates
the replicas. This protects against faulty gradients on honest hosts, not against a compromised rank.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from train import TRUTH, batch, new_model

import mixtailor as mt
from mixtailor.engines.distributed import Replicas, RobustOptimizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=2, help="ranks of each replica")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (count // arguments.shards, arguments.shards), mesh_dim_names=("replicate", "shard"))
    model = new_model()
    fully_shard(model, mesh=mesh["shard"])  # and not the whole mesh: FSDP would average over the replicas
    optimizer = RobustOptimizer(torch.optim.SGD(model.parameters(), lr=0.04), Replicas(mt.Comed(), mesh))
    replicas, replica = mesh.size(0), mesh.get_local_rank("replicate")
    for step in range(arguments.steps):
        inputs, targets = batch(rank, step, poisoned=replica == replicas - 1)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()  # type: ignore[no-untyped-call]  # torch's
        optimizer.step()
    inputs, targets = batch(999, 0, poisoned=False)
    with torch.no_grad():
        loss = torch.nn.functional.mse_loss(model(inputs), targets).item()
    if rank == 0:
        nothing = (inputs @ TRUTH).square().mean().item()
        print(f"{replicas} replicas: loss {loss:.3f} on clean data (a model that answers 0: {nothing:.3f})")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
