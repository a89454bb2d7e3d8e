"""Adapters as PEFT writes them: a folder with ``adapter_model.safetensors`` and ``adapter_config.json``."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mixtailor._checks import refuse, shown
from mixtailor._files import atomic_write, read_bounded
from mixtailor.lowrank.factors import Factors
from mixtailor.storage.files.formats import contents
from mixtailor.storage.kinds import Unfit, recast

__all__ = ["Adapter", "read_adapter", "write_adapter"]

_FACTOR = re.compile(r"(?P<layer>.+)\.lora_(?P<side>[AB])\.weight")
_CONFIG = 1 << 20  # bytes of a configuration, at most


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter: its layers with the scaling multiplied in, and its configuration as it was read."""

    layers: Mapping[str, Factors]
    config: Mapping[str, Any]


def read_adapter(folder: str | Path, *, most_bytes: int | None = None) -> Adapter:
    """Read a folder that PEFT's ``save_pretrained`` wrote.

    The scaling, ``lora_alpha / r`` or with `use_rslora` ``lora_alpha / sqrt(r)``, is multiplied into the left factors.
    Adapters with tensors that are no LoRA factors, DoRA's and other methods are refused.

    Parameters
    ----------
    folder : path
    most_bytes : int, optional
        A file of more bytes is not loaded. One of holes costs whoever makes it nothing, and the reader its memory.
    """
    folder = Path(folder)
    config = _config(folder)
    sides: dict[str, dict[str, Any]] = {}
    try:
        for (name, *_), array in contents(folder / "adapter_model.safetensors").items():
            if most_bytes is not None and array.file.size > most_bytes:
                refuse(f"{shown(folder)} is unreadable: it has {array.file.size} bytes, far more than most.")
            found = _FACTOR.fullmatch(str(name))
            if found is None or len(array.kind.shape) != 2:
                refuse(f"{shown(folder)} has {shown(name)}, which is no factor of a LoRA layer.")
            values = recast(array.run(0, array.size), np.dtype(np.float64)).reshape(array.kind.shape)
            sides.setdefault(found["layer"], {})[found["side"]] = values
    except Unfit as fault:
        refuse(f"{shown(folder)} is {fault}.")
    layers = {}
    for name, pair in sides.items():
        if set(pair) != {"A", "B"} or pair["B"].shape[1] != pair["A"].shape[0] or not len(pair["A"]):
            refuse(f"{shown(folder)} has layer {shown(name)} without two factors that fit.")
        with np.errstate(all="ignore"):  # what is not finite is found where the layers are aggregated
            layers[name] = Factors(pair["B"] * _scaling(config, name, pair["A"].shape[0]), pair["A"])
    return Adapter(layers, config)


def write_adapter(folder: str | Path, layers: Mapping[str, Factors], config: Mapping[str, Any]) -> None:
    """Write layers as an adapter that PEFT loads. Its scaling is one, and ranks may differ between layers.

    Parameters
    ----------
    folder : path
        Where to.
    layers : mapping
        The layers, as `read_adapter` and `aggregate_low_rank` give them.
    config : mapping
        The configuration of one of the adapters; ranks and scaling are replaced.
    """
    try:
        from safetensors.numpy import save
    except ImportError:
        refuse('Adapters need `safetensors`. Install it with: pip install "mixtailor[files]"')
    folder = Path(folder)
    ranks = {name: int(factors.left.shape[1]) for name, factors in layers.items()}
    most = max(ranks.values(), default=1)
    others = {_module(name): rank for name, rank in ranks.items() if rank != most}
    written = {**config, "r": most, "lora_alpha": most, "use_rslora": False}
    written["rank_pattern"], written["alpha_pattern"] = others, others
    tensors = {}
    for name, factors in layers.items():
        tensors[f"{name}.lora_A.weight"] = np.ascontiguousarray(factors.right, np.float32)
        tensors[f"{name}.lora_B.weight"] = np.ascontiguousarray(factors.left, np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / "adapter_model.safetensors") as file:
        file.write(save(tensors))
    with atomic_write(folder / "adapter_config.json") as file:
        file.write(json.dumps(written, indent=2, sort_keys=True).encode() + b"\n")


def _config(folder: Path) -> Mapping[str, Any]:
    path = folder / "adapter_config.json"
    try:
        config = json.loads(read_bounded(path, _CONFIG))
    except (OSError, ValueError, RecursionError):
        refuse(f"{shown(path)} is missing, or is no JSON.")
    if not isinstance(config, dict) or config.get("peft_type") != "LORA" or config.get("use_dora"):
        refuse(f"{shown(folder)} is no LoRA adapter: its peft_type must be LORA, without DoRA.")
    alpha, ranks = config.get("lora_alpha"), config.get("alpha_pattern") or {}
    numbers = [alpha, *(ranks.values() if isinstance(ranks, dict) else [None])]
    if not all(_is_finite(number) for number in numbers):
        refuse(f"{shown(path)} has no number as lora_alpha.")
    return config


def _is_finite(number: object) -> bool:
    try:
        return isinstance(number, int | float) and math.isfinite(number)
    except OverflowError:  # an integer beyond float64
        return False


def _module(layer: str) -> str:
    """The name of a layer in the model, which patterns of ranks are matched with."""
    return layer.removeprefix("base_model.model.")


def _scaling(config: Mapping[str, Any], layer: str, rank: int) -> float:
    alpha, module = config["lora_alpha"], _module(layer)
    for name, other in (config.get("alpha_pattern") or {}).items():
        if module == name or module.endswith(f".{name}"):
            alpha = other
            break
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)
