"""`RobustOptimizer` as a torch optimizer, and `GradScaler` with it and with the hook, in real processes."""

import copy

import numpy as np
import pytest
import torch
from engines import optimizer_ranks
from engines.processes import run

import mixtailor as mt
from mixtailor.engines.distributed import Peers, RobustOptimizer

COUNT = 5


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of five ranks did."""
    return run(optimizer_ranks.everything, COUNT, tmp_path_factory.mktemp("optimizer"))


def test_schedulers_closures_and_checkpoints_work(ranks):
    """The wrapper is a torch optimizer: its state is that of the optimizer inside, also after loading."""
    assert issubclass(RobustOptimizer, torch.optim.Optimizer)
    for rank in ranks:
        losses, rate, steps, same_state, n = rank["scheduled"]
        assert losses[1] < losses[0] and rate == pytest.approx(0.05) and steps == 3.0 and same_state and n == COUNT


def test_parameters_that_no_rank_used_stay(ranks):
    """AdamW moves a parameter whose gradient is zero, and leaves one that has none."""
    for rank in ranks:
        kept, never, sometimes, always = rank["unused"]
        assert kept and never == [1.0, 1.0]
        assert sometimes == pytest.approx([1 / COUNT] * 2) and always == pytest.approx([3.0, 3.0])


def test_what_no_rule_could_protect_is_refused(ranks):
    """DDP around the model, gradients that are averaged already, closures by the own loss, sparse gradients."""
    for rank in ranks:
        said = rank["refused"]
        assert "DistributedDataParallel module averages these" in said["after"]
        assert "DistributedDataParallel module averages these" in said["before"]
        assert "All 5 updates of this step are the same" in said["equal"] and said["meant"] is None
        assert "LBFGS calls a closure" in said["closure"]
        assert "dense gradients" in said["sparse"] and "shape (4, 2)" in said["sparse"]


def test_later_steps_are_checked_too(ranks):
    """Zeros and overflows may be equal on honest ranks; a wrapper may be made after the first step."""
    for rank in ranks:
        said = rank["checked_later"]
        assert "All 5 updates of this step are the same" in said["zeros"]
        assert "All 5 updates of this step are the same" in said["overflow"]
        assert said["plain"] is None and "module averages these" in said["late"] and said["frozen"] is None


def test_scaler_with_the_optimizer(ranks):
    """At most f overflows are quarantined; more skip the step on all ranks and shrink the scales of those ranks."""
    for place, rank in enumerate(ranks):
        weights, scales, skipped = zip(*rank["scaled_optimizer"], strict=True)
        assert weights == ([-3.0, -3.0], [-6.5, -6.5], [-6.5, -6.5], [-6.5, -6.5], [-9.5, -9.5])
        assert skipped == (0, 0, 1, 2, 2)
        overflows = (1, 3) if place == 0 else (2, 3)
        assert list(scales) == [1024.0 / 2 ** sum(at <= turn for at in overflows) for turn in range(5)]


@pytest.mark.parametrize("on_fault", ["scaled_hook", "skip"])
def test_scaler_with_the_hook(on_fault, ranks):
    """More than f overflows reach the scaler of every rank: it skips the step and shrinks."""
    for rank in ranks:
        weights, scales = zip(*rank[on_fault], strict=True)
        assert weights == ([-3.0, -3.0], [-6.5, -6.5], [-6.5, -6.5], [-6.5, -6.5], [-9.5, -9.5])
        assert scales == (1024.0, 1024.0, 512.0, 256.0, 256.0)


def test_hook_without_a_scaler_raises(ranks):
    assert all("not finite" in rank["hook_without_scaler"] for rank in ranks)


def test_accumulated_gradients_are_clipped_after_aggregation(ranks):
    """The median rank has (18, 24, 0) after two passes; its length becomes 1."""
    for rank in ranks:
        assert rank["clipped"] == pytest.approx([-0.6, -0.8, 0.0], abs=1e-6)


def test_a_compiled_step_aggregates(ranks):
    for rank in ranks:
        model, n = rank["compiled"]
        assert np.array_equal(model, ranks[0]["compiled"][0]) and n == COUNT


def test_added_groups_reach_the_optimizer_inside():
    """Both have the same groups; a copy would take a process group along, and is refused by torch itself."""
    first, second = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    inner = torch.optim.SGD([first], lr=0.1)
    outer = RobustOptimizer(inner, Peers(mt.Comed()))
    outer.add_param_group({"params": [second], "lr": 0.5})
    assert outer.param_groups is inner.param_groups and [group["lr"] for group in inner.param_groups] == [0.1, 0.5]
    twin = copy.deepcopy(outer)
    assert twin.optimizer is not inner and twin.param_groups is twin.optimizer.param_groups


def test_a_rule_inside_a_compiled_function():
    """torch.compile cannot trace the kernels: the call stays outside of its graph."""
    rows, krum, comed = torch.randn(7, 5), mt.Krum(1), mt.Comed()
    double = torch.compile(lambda rows: krum(2 * rows) + comed.aggregate(rows).update, backend="eager")
    assert torch.equal(double(rows), krum(2 * rows) + comed(rows))


def test_a_memory_inside_a_compiled_function():
    """The recommended rule learns there, as outside."""
    memory, guarded = mt.recommended(1, 9), mt.Guarded(mt.Comed())
    both = torch.compile(lambda rows: memory(rows, workers=range(9)) + guarded(rows), backend="eager")
    for _ in range(2):
        assert both(torch.randn(9, 5)).shape == (5,)
    assert memory.rounds(3) == 2
