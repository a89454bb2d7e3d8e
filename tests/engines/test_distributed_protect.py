"""`protect`: which wrapper of a model gets the hook, where frameworks make several of them."""

import gc

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import mixtailor as mt
from mixtailor.engines.distributed import RobustHook, protect


@pytest.fixture
def model():
    """A model that the test may wrap, in a group of one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield torch.nn.Linear(2, 1)
    gc.collect()  # wrappers hold the group
    dist.destroy_process_group()


def _step(wrapper):
    wrapper(torch.ones(4, 2)).sum().backward()


def test_a_model_that_is_trained_again_keeps_its_hook_with_the_new_rule(model):
    """The same wrapper, as of a second `train()`; torch itself registers a hook once."""
    wrapper = DistributedDataParallel(model)
    first = protect(model, mt.Comed())
    _step(wrapper)
    second = protect(model, mt.Mean())
    assert second is first and second.calls == 0 and second.last is None
    _step(wrapper)
    assert second.calls == 1 and second.last.rule == mt.Mean()


def test_a_second_wrapper_of_a_model_is_protected_beside_the_first(model):
    """Whichever of them trains, its steps go through the hook, with the last rule that was given."""
    wrappers = [DistributedDataParallel(model)]
    protect(model, mt.Comed())
    wrappers.append(DistributedDataParallel(model))
    hook = protect(model, mt.Mean())
    for place, wrapper in enumerate(wrappers):
        _step(wrapper)
        assert hook.calls == place + 1 and hook.last.rule == mt.Mean()


def test_several_wrappers_that_nobody_protected_are_refused(model):
    """Which of them trains is not known; given by itself, one of them is."""
    wrappers = [DistributedDataParallel(model) for _ in range(2)]
    with pytest.raises(ValueError, match="and 2 hold this model"):
        protect(model, mt.Comed())
    hook = protect(wrappers[1], mt.Comed())
    _step(wrappers[1])
    assert hook.calls == 1


def test_several_wrapped_parts_of_a_model_are_refused():
    """One hook would leave the other part to the mean."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parts = torch.nn.ModuleList([DistributedDataParallel(torch.nn.Linear(2, 1)) for _ in range(2)])
    with pytest.raises(ValueError, match="and 2 hold this model"):
        protect(parts, mt.Comed())
    del parts
    gc.collect()
    dist.destroy_process_group()


def test_a_hook_that_another_registered_is_not_replaced(model):
    """Torch refuses a second hook, and the model is not taken for protected."""
    wrapper = DistributedDataParallel(model)
    wrapper.register_comm_hook(None, RobustHook(mt.Mean()))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="can only be called once"):
            protect(model, mt.Comed())
