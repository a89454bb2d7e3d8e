"""What aggregators and workers do in the tests of trusted aggregators."""

import os
import time

import numpy as np
import torch
import torch.distributed as dist

import mixtailor as mt
from mixtailor.engines.distributed import Aggregator, RobustOptimizer, Worker

D = 41
# On three rows both are the median, so a test knows the answer without knowing the draw.
POOL = (mt.Comed(), mt.TrimmedMean(1))
LAST_OF_KILLED = 5
PATIENCE = 15.0  # seconds in which honest workers answer, however busy the machine is


def meeting(folder, count):
    return dist.FileStore(str(folder / "addresses"), count)


def vectors(round):
    return np.random.default_rng(round).normal(size=(4, D)).astype(np.float32)


def hostile(rank, count, folder):
    """Two aggregators and four workers, of which one sends what no honest worker would, another way each round."""
    store = meeting(folder, count)
    if rank < 2:
        # The aggregators' own group, which no worker is in.
        dist.init_process_group("gloo", store=dist.PrefixStore("aggregators", store), rank=rank, world_size=2)
        aggregator = Aggregator.open(
            store,
            mt.MixTailor(POOL),
            D,
            workers=4,
            rank=rank,
            aggregators=2,
            timeout=60.0,
            on_fault="skip",
        )
        aggregator.timeout = PATIENCE
        found = []
        for _ in range(7):
            result = aggregator.step()
            found.append(
                {
                    "rule": repr(result.rule),
                    "quarantined": {item.row: item.reason for item in result.quarantined},
                    "update": None if result.update is None else result.update.numpy(),
                }
            )
        aggregator.close(60.0)
        dist.barrier()
        dist.destroy_process_group()
        return found
    number = rank - 2
    worker = Worker.join(store, number, aggregators=2, timeout=120.0)
    found = []
    for round in range(7):
        vector = torch.from_numpy(vectors(round)[number])
        if number == 3:
            misbehave(worker, round, vector)
        elif number == 2 and round == 6:
            vector = vector[:-9]  # with worker 3, one more than the rule withstands
            worker.send(vector)
        else:
            worker.send(vector)
        answer = worker.answer(torch.empty(D))
        found.append(None if answer is None else answer.numpy())
    return found


def misbehave(worker, round, vector):
    """NaN; a slice too short and one too long; another type; noise as header; pieces missing; nothing to one; NaN."""
    first, second = worker.lines
    if round == 0:
        worker.send(torch.full_like(vector, float("nan")))
    elif round == 1:
        first.send("update", round, vector[:5])
        second.send("update", round, torch.ones(3_000_000))
    elif round == 2:
        worker.send(vector.to(torch.float64))
    elif round == 3:
        first.store.set("update/3", b"\xff\xfe\x00 float32 -1" * 50)
        second.store.set("update/3", "float32 21e0")
    elif round == 4:
        for line, count in ((first, 21), (second, 20)):
            line.store.set(f"update/{round}", f"float32 {count}")
    elif round == 5:
        first.send("update", round, vector[:21])  # and nothing to the second: it is late for both
    else:
        worker.send(torch.full_like(vector, float("inf")))


def killed(rank, count, folder):
    """One aggregator and four workers that train a model; one of them is killed in the middle of a round."""
    store = meeting(folder, count)
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    if rank == 0:
        aggregator = Aggregator.open(store, mt.TrimmedMean(1), 4, workers=4, timeout=60.0)
        found = []
        for round in range(60):
            if round == LAST_OF_KILLED:
                aggregator.timeout = PATIENCE  # all are up; the one that is killed now is waited for once
            began = time.monotonic()
            result = aggregator.step()
            found.append(([item.row for item in result.quarantined], time.monotonic() - began))
        aggregator.close(60.0)
        return found
    number = rank - 1
    worker = Worker.join(store, number, timeout=120.0)
    optimizer = RobustOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), worker)
    inputs = torch.from_numpy(np.random.default_rng(number).normal(size=(64, 3))).to(torch.float32)
    targets = inputs @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3
    for round in range(60):
        if number == 3 and round == LAST_OF_KILLED:
            worker.lines[0].store.set(f"update/{round}/0", b"\0" * 16)  # in the middle of sending
            os.kill(os.getpid(), 9)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return np.concatenate([item.detach().numpy().reshape(-1) for item in model.parameters()])
