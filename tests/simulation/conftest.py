"""What the tests of the simulation share."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

with contextlib.suppress(ModuleNotFoundError):  # where it is missing, what needs it is skipped
    import torch

    # The networks here are tiny: threads that wait for each other on a busy machine cost more than they bring.
    torch.set_num_threads(1)


@pytest.fixture
def shared_data() -> Path:
    """The folder with the published data files; tests that need it are skipped where there is none."""
    named = os.environ.get("MIXTAILOR_DATA")
    folder = Path(named) if named else Path(__file__).parents[2].parent / "shared" / "data"
    if not (folder / "mnist").is_dir():
        pytest.skip("the published data files are not here; set MIXTAILOR_DATA")
    return folder


@pytest.fixture(autouse=True)
def same_global_randomness() -> Iterator[None]:
    """Tests that draw tensors or weights draw the same ones in every order of tests."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
