"""Results of `mixtailor aggregate` on folders load in PEFT and transformers: a tiny GPT-2, made at random."""

import numpy as np
import pytest
import torch

from mixtailor.cli import main

pytest.importorskip("peft")
pytest.importorskip("transformers")

import peft
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

NAMES = ["ann", "bob", "cyn", "dan", "eve"]
pytestmark = pytest.mark.filterwarnings("ignore")  # of these packages, about one another


def _model(seed):
    torch.manual_seed(seed)
    shape = {"vocab_size": 16, "n_positions": 8, "n_embd": 16, "n_layer": 2, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=0, eos_token_id=0))


def _logits(model):
    model.eval()
    with torch.no_grad():
        return model(input_ids=torch.arange(8)[None]).logits.numpy()


def _aggregate(folder, *options):
    words = ["aggregate", str(folder), "-o", str(folder.parent / "merged"), "--rule", "comed", "--f", "2", *options]
    assert main(words) == 0
    return folder.parent / "merged"


def test_an_adapter_of_adapters_loads_in_peft(tmp_path):
    """Two of five are hostile: the result is near the honest ones, the mean is not."""
    folder, base = tmp_path / "adapters", tmp_path / "base"
    _model(0).save_pretrained(base)
    honest = []
    for place, name in enumerate(NAMES):
        config = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
        model = peft.get_peft_model(GPT2LMHeadModel.from_pretrained(base), config)
        torch.manual_seed(place)
        with torch.no_grad():
            for item in (item for item in model.parameters() if item.requires_grad):
                item.copy_(0.05 + 0.001 * torch.randn_like(item) if place < 3 else torch.full_like(item, 1e4))
        if place < 3:
            honest.append(_logits(model))
        model.save_pretrained(folder / name)
    merged = _aggregate(folder)
    found = _logits(peft.PeftModel.from_pretrained(GPT2LMHeadModel.from_pretrained(base), merged))
    assert np.abs(found - np.mean(honest, axis=0)).max() < 0.1 * np.abs(found).max()
    assert np.abs(found - _logits(_model(0))).max() > 0, "the adapter does something"


@pytest.mark.parametrize("size", ["8KB", "1GB"])
def test_a_model_of_models_loads_in_transformers(tmp_path, size):
    """Whole models, in one file and in several; the tied weights of GPT-2 stay tied."""
    folder, base = tmp_path / "models", _model(0)
    for place, name in enumerate(NAMES):
        model = _model(0)
        torch.manual_seed(place)
        with torch.no_grad():
            for item in model.parameters():
                item.add_(0.001 * torch.randn_like(item) if place < 3 else 1e4)
        model.save_pretrained(folder / name, max_shard_size=size)
    assert (folder / "ann" / "model.safetensors.index.json").exists() == (size == "8KB")
    found = AutoModelForCausalLM.from_pretrained(_aggregate(folder))
    assert np.abs(_logits(found) - _logits(base)).max() < 0.2
