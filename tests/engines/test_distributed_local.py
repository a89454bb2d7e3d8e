"""`LocalSteps`, with real processes: outer steps along what a rule makes of all ranks' ways."""

import numpy as np
import pytest
import torch
from engines.processes import run

import mixtailor as mt
from mixtailor.engines.distributed import LocalSteps, Peers, RobustOptimizer

COUNT, EVERY, ROUNDS = 3, 3, 2


def _optimizers(weight):
    inner = torch.optim.SGD([weight], lr=0.1)
    outer = torch.optim.SGD([weight], lr=0.7, momentum=0.9, nesterov=True)
    return inner, outer


def _target(rank):
    return torch.tensor([1.0, 2.0]) * (1.0 + rank) * (1e6 if rank == COUNT - 1 else 1.0)


def local(rank, count):
    """The weight and the ranks' gradients after each step; then a checkpoint is loaded and one more round taken."""
    weight = torch.nn.Parameter(torch.zeros(2))
    inner, outer = _optimizers(weight)
    optimizer, found = LocalSteps(inner, RobustOptimizer(outer, Peers(mt.Comed())), every=EVERY), []

    def step(optimizer):
        optimizer.zero_grad()
        (0.5 * (weight - _target(rank)).square().sum()).backward()
        optimizer.step()
        found.append(weight.tolist())

    for _ in range(EVERY * ROUNDS - 1):
        step(optimizer)
    state = optimizer.state_dict()
    inner, outer = _optimizers(weight)
    optimizer = LocalSteps(inner, RobustOptimizer(outer, Peers(mt.Comed())), every=EVERY)
    optimizer.load_state_dict(state)
    step(optimizer)
    return found


def test_outer_steps_equal_those_of_one_process(tmp_path):
    """Ranks differ between outer steps and agree after them; the one that is a million times too far moves nothing."""
    found = run(local, COUNT, tmp_path)
    weight = torch.nn.Parameter(torch.zeros(2))
    outer = _optimizers(weight)[1]
    for place in range(ROUNDS):
        start, ways = weight.detach().clone(), []
        for rank in range(COUNT):
            model = start.clone()
            for _ in range(EVERY):
                model -= 0.1 * (model - _target(rank))
            ways.append(start - model)
        weight.grad = mt.Comed()(torch.stack(ways))
        outer.step()
        turn = EVERY * (place + 1) - 1
        for rank in range(COUNT):
            assert np.allclose(found[rank][turn], weight.tolist(), rtol=1e-5)
        assert found[0][turn - 1] != found[1][turn - 1]


def test_both_optimizers_need_the_same_parameters():
    first, second = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
    outer = RobustOptimizer(torch.optim.SGD([second], lr=0.7), Peers(mt.Comed()))
    with pytest.raises(ValueError, match="on the same parameters"):
        LocalSteps(torch.optim.SGD([first], lr=0.1), outer, every=2)
    with pytest.raises(ValueError, match="at least one local step"):
        LocalSteps(torch.optim.SGD([second], lr=0.1), outer, every=0)
