"""Gossip among real processes: one is Byzantine, and one is killed."""

import pytest
import torch
import torch.distributed as dist
from engines import gossip_ranks
from engines.processes import run

import mixtailor as mt
from mixtailor.engines.distributed import Gossip


def test_six_processes_go_on_when_one_is_killed(tmp_path):
    """The others agree, the Byzantine one's garbage has no part in it, and they know who is absent."""
    found = run(gossip_ranks.agreeing, 6, tmp_path, tmp_path, 1, grouped=False)
    assert found[5] is None, "it was killed"
    models = [torch.tensor(model) for model, _ in found[1:5]]
    assert all(float(model.min()) >= 0.0 and float(model.max()) <= 3.0 for model in models)
    assert max(float((one - models[0]).abs().max()) for one in models) < 0.5, "they began 3 apart"
    assert all(absent == [5] for _, absent in found[:5])


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_wrong_arguments_are_refused(alone):
    with pytest.raises(ValueError, match="other ranks of the group"):
        Gossip(mt.Comed(), [0])
    with pytest.raises(ValueError, match="belongs to one server"):
        Gossip(mt.recommended(0), [])
    with pytest.raises(ValueError, match="at least 3 rows"):
        Gossip(mt.MoNNA(1), [])
