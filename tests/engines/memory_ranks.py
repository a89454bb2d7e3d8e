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


def after_a_reset(rank, count):
    """A memory that has learnt is emptied on all ranks, each of which then has another secret."""
    memory = mt.Memory(mt.ViewFilter(1))
    for round in range(2):
        robust_all_reduce(torch.from_numpy(vectors(round, count)[rank]), memory)
        memory.reset()
    robust_all_reduce(torch.from_numpy(vectors(2, count)[rank]), memory)
    return memory.state()["key"]


def keys_of_their_own(rank, count):
    """States of equally many workers and rounds, of memories with different secrets."""
    memory = mt.Memory(mt.ViewFilter(1), key=rank % 2)
    memory(vectors(0, count))
    try:
        robust_all_reduce(torch.from_numpy(vectors(1, count)[rank]), memory)
    except ValueError as error:
        return str(error)
    return None


def everything(rank, count):
    """All in one group."""
    asked = (train, restored_on_one, after_a_reset, keys_of_their_own)
    return tuple(ask(rank, count) for ask in asked)
