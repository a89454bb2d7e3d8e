"""torchft with real replicas: one silently corrupt, one killed, one that joins again."""

import json
import math
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from engines.processes import SECONDS

import mixtailor as mt

pytest.importorskip("torchft")

from torch.distributed import TCPStore
from torchft import Manager, ProcessGroupGloo
from torchft.coordination import LighthouseServer
from torchft.manager import WorldSizeMode
from torchft.process_group import ProcessGroupDummy

from mixtailor.engines.torchft import RobustDistributedDataParallel, managed_all_reduce

# Warnings of torchft's own: a socket that it leaves open, and a name of Python's logging.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::ResourceWarning",
    "ignore:The 'warn' method is deprecated:DeprecationWarning",
)
PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "torchft" / "train.py"


def _run(*options):
    run = subprocess.run(
        [sys.executable, str(PROGRAM), "--json", *options], capture_output=True, text=True, timeout=2 * SECONDS
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


def test_training_goes_on_past_a_corrupt_and_a_killed_replica():
    """All that end have the same model, which has learnt; n was four, three, and four again."""
    found = _run("--steps", "300")
    ended = [found[name] for name in ("ann", "bob", "cyn", "dan, again")]
    assert {steps[-1]["model"] for steps in ended} == {ended[0][-1]["model"]}
    for steps in ended:
        assert steps[-1]["step"] == 299 and steps[-1]["loss"] < 0.05
    sizes = [step["n"] for step in found["ann"]]
    three = sizes.index(3, sizes.index(4))
    assert 4 in sizes[three:], "another replica joined"
    assert found["dan"][-1]["step"] < 100 < found["dan, again"][-1]["step"]
    assert found["dan, again"][0]["step"] > 0


def test_with_torchfts_average_it_does_not():
    """The corrupt replica alone ends it: the test above could fail."""
    found = _run("--steps", "60", "--mean")
    assert not math.isfinite(found["ann"][-1]["loss"]) or found["ann"][-1]["loss"] > 10


class Alone:
    """A manager of one replica."""

    def __init__(self, **options):
        self.lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=100)
        self.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        given = {"pg": ProcessGroupGloo(timeout=timedelta(seconds=10)), "use_async_quorum": False}
        self.manager = Manager(
            **{**given, "min_replica_size": 1, "rank": 0, "world_size": 1, **options},
            load_state_dict=lambda state: None,
            state_dict=dict,
            store_addr="127.0.0.1",
            store_port=self.store.port,
            lighthouse_addr=self.lighthouse.address(),
            replica_id="alone",
        )

    def __enter__(self):
        return self.manager

    def __exit__(self, *error):
        self.manager.shutdown()
        self.lighthouse.shutdown()
        self.manager._checkpoint_transport._server.server_close()  # which torchft leaves open, with a warning


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        (mt.Comed(), {"use_async_quorum": True}, r"use_async_quorum=False"),
        (mt.Krum(1), {}, r"needs at least 5 updates .* continues with 1. Make it with min_replica_size=5"),
        (mt.recommended(1), {"min_replica_size": 3}, "A memory cannot be used with torchft yet"),
        (mt.Comed(), {"pg": ProcessGroupDummy(0, 1)}, "such as ProcessGroupGloo"),
    ],
)
def test_what_cannot_work_is_refused_by_name(rule, options, message):
    with Alone(**options) as manager, pytest.raises(ValueError, match=message):
        RobustDistributedDataParallel(manager, torch.nn.Linear(2, 1), rule)


def test_spares_are_refused():
    """A spare is in the group and takes no part: it would count as an update."""
    with Alone(world_size_mode=WorldSizeMode.FIXED_WITH_SPARES) as manager:
        manager.start_quorum()
        manager._participating_replica_world_size = 0
        with pytest.raises(ValueError, match="and 0 take part"):
            managed_all_reduce(torch.ones(3), mt.Comed(), manager)


def test_faults_beyond_f_are_reported_and_not_committed():
    """NaN on the one replica there is: zeros, and the manager knows why."""
    with Alone() as manager:
        manager.start_quorum()
        good, bad, later = torch.ones(3), torch.full((3,), math.nan), torch.ones(3)
        assert managed_all_reduce(good, mt.Comed(), manager).n == 1
        assert managed_all_reduce(bad, mt.Comed(), manager) is None
        assert torch.equal(bad, torch.zeros(3)) and manager.errored() is not None
        assert managed_all_reduce(later, mt.Comed(), manager) is None and torch.equal(later, torch.zeros(3))
        assert not manager.should_commit()
        manager.start_quorum()
        assert managed_all_reduce(torch.ones(3), mt.Comed(), manager).n == 1 and manager.should_commit()
