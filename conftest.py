"""What all tests share: repeatable hypothesis, and `np` in doctests, as readers of a docstring expect."""

import os
from typing import Any

import hypothesis
import numpy as np
import pytest

# The same examples at each run, so that a failure is the change's own. HYPOTHESIS_PROFILE=exploring draws new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile("exploring", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def _numpy_in_doctests(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["np"] = np
