"""What the tests of experiments share."""

import contextlib
import os
from pathlib import Path

import pytest

with contextlib.suppress(ModuleNotFoundError):  # where it is missing, what needs it is skipped
    import torch

    torch.set_num_threads(1)  # the networks are tiny, and so is the machine


@pytest.fixture
def shared_data() -> Path:
    """The folder with the published data files; tests that need it are skipped where there is none."""
    named = os.environ.get("MIXTAILOR_DATA")
    folder = Path(named) if named else Path(__file__).parents[2].parent / "shared" / "data"
    if not (folder / "mnist").is_dir():
        pytest.skip("the published data files are not here; set MIXTAILOR_DATA")
    return folder
