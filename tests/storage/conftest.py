"""One torch thread: the tests compare values, and several processes share the cores."""

import pytest

try:
    import torch
except ModuleNotFoundError:  # the base package is tested without it
    torch = None


@pytest.fixture(autouse=True)
def _one_torch_thread():
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
