"""Hugging Face's Trainer, Accelerate, Lightning and Fabric, in real processes, with one corrupt rank."""

import importlib
import pickle
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from engines import framework_ranks as body

NEEDS = {"trainer": "transformers", "accelerate": "accelerate", "lightning": "lightning", "fabric": "lightning"}


def _run(name, folder, *arguments):
    """What each rank found."""
    pytest.importorskip(NEEDS[name])
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, body.__file__, name]
    options = [str(port), str(folder), *(str(int(one)) for one in arguments)]
    started = [
        subprocess.Popen([*command, str(rank), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in range(body.COUNT)
    ]
    try:
        said = [process.communicate(timeout=300)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait(10)
    assert [process.returncode for process in started] == [0] * body.COUNT, said
    return [pickle.loads((folder / f"rank{rank}").read_bytes()) for rank in range(body.COUNT)]  # noqa: S301  # our own


@pytest.mark.parametrize("name", NEEDS)
def test_training_withstands_a_corrupt_rank(name, tmp_path):
    """All ranks end with the same model, which has learnt; every step aggregated all ranks."""
    found = _run(name, tmp_path, *([True] if name in ("trainer", "lightning") else []))
    for before, after, model, n in found:
        assert after < 0.8 * before and n == body.COUNT
        assert np.array_equal(model, found[0][2])


@pytest.mark.parametrize("name", ["trainer", "lightning"])
def test_without_the_callback_it_does_not(name, tmp_path):
    """The mean follows the corrupt rank: the test above could fail."""
    before, after, _, _ = _run(name, tmp_path, False)[0]
    assert not after < before


@pytest.mark.parametrize(("name", "package"), [("huggingface", "transformers"), ("lightning", "lightning")])
def test_callbacks_refuse_where_they_would_have_no_effect(name, package):
    """A model that nothing wraps: one process, FSDP, DeepSpeed."""
    pytest.importorskip(package)
    callback = importlib.import_module(f"mixtailor.engines.{name}").RobustCallback(body.RULE)
    begin = {"lightning": lambda model: callback.on_train_start(None, model)}.get(
        name, lambda model: callback.on_train_begin(None, None, None, model=model)
    )
    with pytest.raises(ValueError, match="protect needs a model inside DistributedDataParallel"):
        begin(torch.nn.Linear(2, 1))
