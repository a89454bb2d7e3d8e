"""What ranks do in the tests of a memory."""

import numpy as np
import torch

import mixtailor as mt
from mixtailor.engines.distributed import robust_all_reduce

ROUNDS, D = 40, 300


def vectors(round, count):
    """Noise, and one rank that pushes by as much."""
    rows = np.random.default_rng(round).normal(size=(count, D))
    rows[count - 1] = -1.0
    return rows


def train(rank, count):
    """Each rank has a memory of its own, with a secret of its own."""
    memory = mt.Memory(mt.ViewFilter(1))
    for round in range(ROUNDS):
        tensor = torch.from_numpy(vectors(round, count)[rank])
        result = robust_all_reduce(tensor, memory)
    return tensor.numpy(), result.weights, memory.state()


def restored_on_one(rank, count):
    """The state of an earlier training is restored on the first rank alone."""
    earlier, memory = mt.Memory(mt.ViewFilter(1)), mt.Memory(mt.ViewFilter(1))
    earlier(vectors(0, count))
    if rank == 0:
        memory.restore(earlier.state())
    try:
        robust_all_reduce(torch.from_numpy(vectors(1, count)[rank]), memory)
    except ValueError as error:
        return str(error), list(memory)
    return None


def everything(rank, count):
    """Both in one group."""
    return train(rank, count), restored_on_one(rank, count)
