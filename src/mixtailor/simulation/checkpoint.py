"""Everything that a run needs to resume, in one file that is written completely or not at all."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mixtailor._files import atomic_write
from mixtailor.simulation.archives import read_arrays

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CannotKeep", "load", "save"]

_ENTRY = "state"
_TRUSTED = "mixtailor."
_BITS = {name: getattr(np.random, name) for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")}


class CannotKeep(TypeError):
    """A value that a checkpoint has no form for."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a tree of plain values, arrays and tensors.

    Plain values are kept as JSON and arrays as they are, so that nothing is executed when a checkpoint is read. The
    dataclasses of this package and numpy generators are taken apart and put together again.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "run.npz")
    ...     save(path, {"round": 3, "weights": torch.ones(2), "note": (1, None)})
    ...     load(path)
    {'round': 3, 'weights': tensor([1., 1.]), 'note': (1, None)}
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    text = json.dumps(_apart(state, arrays))
    arrays[_ENTRY] = np.frombuffer(text.encode(), np.uint8)
    with atomic_write(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy's stub takes the names for its own options


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote; a damaged file is an error."""
    try:
        arrays = read_arrays(path)
        state = _together(json.loads(arrays[_ENTRY].tobytes()), arrays)
        if not isinstance(state, dict):
            raise ValueError("it holds no state")
    except Exception as error:  # whatever a file holds that `save` did not write
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ValueError(f"The checkpoint {path} cannot be read: {why}. Remove it to start again.") from error
    return state


def _apart(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """A value as JSON, with a mark for what JSON has no form for."""
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, np.generic)):
        return value
    if isinstance(value, torch.Tensor):
        return {"kind": "tensor", "of": _stored(value.detach().cpu().numpy(), arrays)}
    if isinstance(value, np.ndarray):
        return {"kind": "array", "of": _stored(value, arrays)}
    if isinstance(value, np.generic):
        return {"kind": "scalar", "of": _stored(np.asarray(value), arrays)}
    if isinstance(value, np.random.Generator):
        state = _apart(dict(value.bit_generator.state), arrays)
        return {"kind": "generator", "of": [type(value.bit_generator).__name__, state]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        if not kind.__module__.startswith(_TRUSTED):
            raise CannotKeep(f"A checkpoint keeps dataclasses of this package alone, and not {kind.__qualname__}.")
        fields = {item.name: _apart(getattr(value, item.name), arrays) for item in dataclasses.fields(value)}
        return {"kind": "object", "of": [kind.__module__, kind.__qualname__, fields]}
    if isinstance(value, (list, tuple, set, frozenset)):
        kind_name = type(value).__name__
        if type(value) not in (list, tuple, set, frozenset):
            raise CannotKeep(f"A checkpoint has no form for {kind_name}.")
        return {"kind": kind_name, "of": [_apart(item, arrays) for item in value]}
    if type(value) in (dict, Counter):
        pairs = [[_apart(key, arrays), _apart(item, arrays)] for key, item in value.items()]
        return {"kind": type(value).__name__.lower(), "of": pairs}
    raise CannotKeep(f"A checkpoint has no form for {type(value).__qualname__}.")


def _stored(array: np.ndarray[Any, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    if array.dtype.hasobject:
        raise CannotKeep("A checkpoint has no form for arrays of objects.")
    name = f"array{len(arrays)}"
    arrays[name] = array
    return name


def _together(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if not isinstance(value, dict):
        return value
    kind, of = value["kind"], value["of"]
    if kind == "tensor":
        return torch.from_numpy(arrays[of].copy())
    if kind == "array":
        return arrays[of]
    if kind == "scalar":
        return arrays[of][()]
    if kind == "generator":
        bits = _BITS[of[0]]()
        bits.state = _together(of[1], arrays)
        return np.random.Generator(bits)
    if kind == "object":
        return _object(of[0], of[1], of[2], arrays)
    if kind in ("dict", "counter"):
        pairs = {_together(key, arrays): _together(item, arrays) for key, item in of}
        return pairs if kind == "dict" else Counter(pairs)
    whole = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
    return whole(_together(item, arrays) for item in of)


def _object(module: str, name: str, fields: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if not module.startswith(_TRUSTED) or module.rpartition(".")[2].startswith("__"):
        raise ValueError(f"it names a class of {module}")
    kind: Any = importlib.import_module(module)
    for part in name.split("."):
        kind = getattr(kind, part)
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind) or kind.__module__ != module:
        raise ValueError(f"{name} is no dataclass of {module}")
    if set(fields) != {item.name for item in dataclasses.fields(kind)}:
        raise ValueError(f"it has other fields than {name}")
    made = object.__new__(kind)
    for field, item in fields.items():
        object.__setattr__(made, field, _together(item, arrays))
    return made
