"""Train a model on several ranks of which the last one has poisoned data. Each step draws its rule.

    torchrun --nproc-per-node 4 examples/distributed/train.py

Every rank is worker and aggregator. This protects against faulty gradients on honest hosts, not against a compromised
rank; the Flower example has workers that need not be trusted.

The backend is gloo on the CPU. ``--backend nccl`` puts the ranks on GPUs, one each; that path was not tested.
"""

import argparse
import gc
import os

import torch
import torch.distributed as dist

import mixtailor as mt
from mixtailor.engines.distributed import Peers, RobustHook, RobustOptimizer

TRUTH = torch.linspace(-2.0, 2.0, 20)[:, None]


def batch(rank: int, step: int, poisoned: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of a linear problem; a poisoned rank has the opposite targets, a hundredfold."""
    random = torch.Generator().manual_seed(1000 * rank + step)
    inputs = torch.randn(64, len(TRUTH), generator=random)
    targets = inputs @ TRUTH + 0.1 * torch.randn(64, 1, generator=random)
    return inputs, -100.0 * targets if poisoned else targets


def new_model() -> torch.nn.Module:
    torch.manual_seed(0)  # the same start everywhere
    return torch.nn.Sequential(torch.nn.Linear(len(TRUTH), 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))


def pool(n: int) -> mt.MixTailor:
    """Rules that tolerate one faulty update of n."""
    rules: list[mt.Rule] = [mt.Comed(), mt.TrimmedMean(f=1), mt.GeometricMedian()]
    return mt.MixTailor([*rules, mt.Krum(f=1)] if n >= 5 else rules)


def train(
    model: torch.nn.Module, optimizer: RobustOptimizer | torch.optim.Optimizer, rank: int, poisoned: bool, steps: int
) -> None:
    device = next(model.parameters()).device
    for step in range(steps):
        inputs, targets = batch(rank, step, poisoned)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        optimizer.step()


def report(model: torch.nn.Module, who: str) -> None:
    device = next(model.parameters()).device
    inputs, targets = batch(999, 0, poisoned=False)
    with torch.no_grad():
        loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device)).item()
    print(f"{who}: loss {loss:.3f} on clean data (a model that answers 0: {targets.square().mean().item():.3f})")


def peers(arguments: argparse.Namespace) -> None:
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cpu")
    if arguments.backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group(arguments.backend)
    model = new_model().to(device)
    steps = torch.optim.SGD(model.parameters(), lr=0.04)
    optimizer: RobustOptimizer | torch.optim.Optimizer = steps
    trained = model
    if arguments.hook:
        trained = torch.nn.parallel.DistributedDataParallel(model)
        trained.register_comm_hook(None, RobustHook(pool(count)))
    else:
        optimizer = RobustOptimizer(steps, Peers(pool(count)))
    train(trained, optimizer, rank, poisoned=rank == count - 1, steps=arguments.steps)
    if rank == 0:
        report(model, f"{count} peers")
    del trained  # DDP holds the group, which ends in good order only if nobody does when it is destroyed;
    gc.collect()  # it may also be held by a cycle of its own
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hook", action="store_true", help="a hook of DistributedDataParallel, not an optimizer")
    parser.add_argument("--backend", choices=["gloo", "nccl"], default="gloo")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    peers(arguments)


if __name__ == "__main__":
    main()
