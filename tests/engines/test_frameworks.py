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
from engines.processes import SECONDS

from mixtailor.engines.distributed import RobustHook

NEEDS = {
    "trainer": "transformers",
    "again": "transformers",
    "accelerate": "accelerate",
    "lightning": "lightning",
    "fabric": "lightning",
}


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
        said = [process.communicate(timeout=SECONDS)[0] for process in started]
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


NOTHING = "protect needs a model inside DistributedDataParallel"


@pytest.mark.filterwarnings("ignore")  # Lightning's own, on loaders with few workers
def test_lightning_refuses_where_it_would_have_no_effect(tmp_path):
    """One process: there is no DistributedDataParallel to register a hook on, and no step is taken."""
    pytest.importorskip("lightning")
    from lightning.pytorch import Trainer

    from mixtailor.engines.lightning import RobustCallback

    model = body._line()
    made = Trainer(
        accelerator="cpu", devices=1, max_epochs=1, callbacks=[RobustCallback(body.RULE)], logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    before = body._squared(model)
    with pytest.raises(ValueError, match=NOTHING):
        made.fit(model, torch.utils.data.DataLoader(body._pairs(), batch_size=4))
    assert body._squared(model) == before


@pytest.mark.filterwarnings("ignore")
def test_hugging_face_refuses_where_it_would_have_no_effect(tmp_path):
    """One process, as above."""
    pytest.importorskip("transformers")
    from transformers import Trainer, TrainingArguments

    from mixtailor.engines.huggingface import RobustCallback

    model = body._gpt2()
    before = body._loss(model)
    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, max_steps=1, report_to=[], disable_tqdm=True)
    made = Trainer(model, arguments, train_dataset=body.Tokens(), callbacks=[RobustCallback(body.RULE)])
    with pytest.raises(ValueError, match=NOTHING):
        made.train()
    assert body._loss(model) == before


@pytest.mark.parametrize("name", ["huggingface", "lightning"])
def test_a_step_that_the_rule_has_not_seen_is_refused(name):
    """A framework that trains something else than what the hook is registered on."""
    pytest.importorskip({"huggingface": "transformers"}.get(name, name))
    callback = importlib.import_module(f"mixtailor.engines.{name}").RobustCallback(body.RULE)
    callback.hook = RobustHook(body.RULE)
    step = callback.on_pre_optimizer_step if name == "huggingface" else callback.on_before_optimizer_step
    with pytest.raises(ValueError, match=r"No gradient has reached Comed\(\) before the first step"):
        step(None, None, None)
    callback.hook.calls = 1
    step(None, None, None)
