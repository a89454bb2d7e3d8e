"""Torch checkpoints as files of arrays: what they hold and where, without torch; the numbers are read by position.

The pickle in a checkpoint is never unpickled, by torch or by anybody else: `outlines` says what it describes.
"""

from typing import Any

import numpy as np

from mixtailor._checks import MissingPackageError
from mixtailor.storage.files.opened import File, FileArray, PlainArray, Unreadable
from mixtailor.storage.files.outlines import Call, Mapped, Name, NoOutline, Opaque, Refused, Stored, outline
from mixtailor.storage.kinds import TORCH_TYPES, Kind, Unfit

__all__ = ["SUFFIXES", "needed_torch", "state"]

SUFFIXES = (".pt", ".pth", ".bin")

_PICKLE = 8 << 20  # some 30,000 tensors; a pickle is read in about a microsecond a byte
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_PARAMETERS = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")
_ODD = ("torch._utils._rebuild_sparse_tensor", "torch._utils._rebuild_nested_tensor")
_STORAGES = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Bool": "bool",
    "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "Byte": "uint8",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip


def needed_torch() -> Any:
    """The package, which writing a checkpoint needs and reading one does not."""
    try:
        import torch
    except ImportError:
        raise MissingPackageError("Writing a torch checkpoint", "torch", "torch") from None
    return torch


def state(file: File, members: dict[str, tuple[int, int]]) -> dict[tuple[object, ...], FileArray]:
    """The tensors of a checkpoint: by name in the order of its state dict, or the one tensor without a name.

    `members` says of each member of the archive, all of them uncompressed, where it begins and how long it is.
    """
    if any(name.rpartition("/")[2] == "constants.pkl" for name in members):
        raise Unreadable(f"a TorchScript program, which is never run; save the state dict ({file.name})")
    pickles = [name for name in members if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1 or members[pickles[0]][1] > _PICKLE:
        raise Unreadable(f"no checkpoint of torch.save ({file.name})")
    folder = pickles[0].removesuffix("data.pkl") + "data/"
    found = _state(_described(file, *members[pickles[0]]))
    if isinstance(found, Call):
        return {(): _part(file, members, folder, found, "the tensor")}
    parts: dict[tuple[object, ...], FileArray] = {}
    if found.other is not None:
        raise Unfit(f"a state dict with the name {str(found.other)[:80]!r}, which is no text")
    for name, value in (found.entries or {}).items():
        parts[name,] = _part(file, members, folder, _entry(name, value), repr(name[:80]))
    _check_apart(parts)
    return parts


def _described(file: File, start: int, size: int) -> Any:
    try:
        return outline(file.read(start, size))
    except Refused as error:
        raise Unreadable(f"it holds Python objects ({error}), which are never loaded ({file.name})") from None
    except NoOutline as error:
        raise Unreadable(f"it holds no pickle of torch.save ({file.name}): {error}") from None


def _state(found: Any) -> Any:
    """The state dict of what was saved, which may be saved with the epoch, the optimizer state and other entries."""
    if isinstance(found, Call):
        return found
    if not isinstance(found, Mapped):
        raise Unfit(f"a checkpoint of {_kind_of(found)} where a state dict is needed")
    entries = found.entries or {}
    inner = [key for key in _WRAPPERS if isinstance(entries.get(key), Mapped)]
    if len(inner) > 1:
        raise Unfit(f"a checkpoint with {inner[0]!r} and {inner[1]!r}; save the one state dict that is meant by itself")
    return entries[inner[0]] if inner else found


def _kind_of(value: Any) -> str:
    if isinstance(value, Opaque):
        return "list"
    if isinstance(value, (Call, Name)):
        return value.path.rpartition(".")[2][:80]
    return type(value).__name__


def _entry(name: str, value: Any) -> Call:
    if isinstance(value, Mapped):
        raise Unfit(f"a checkpoint with a mapping {name[:80]!r} in it; save the state dict that is meant by itself")
    if not isinstance(value, Call) or not value.path.startswith("torch._utils."):
        raise Unfit(f"a state dict whose entry {name[:80]!r} is no tensor but {_kind_of(value)}; leave it out")
    return value


def _tensor(file: File, call: Call, name: str) -> tuple[Stored, int, tuple[int, ...], tuple[int, ...], str, bool]:
    """What a call that would rebuild a tensor says of it: its storage and where it begins there, its shape and strides,
    its type, and whether it is marked as negated or conjugated.
    """
    for _ in range(2):  # a parameter is made of a tensor
        if call.path in _PARAMETERS and call.arguments and isinstance(call.arguments[0], Call):
            call = call.arguments[0]
    if call.path in _ODD:
        raise Unfit(f"of a sparse, nested or quantised tensor where a dense one is needed ({name})")
    if call.path == "torch._utils._rebuild_qtensor":
        raise Unfit("of quantised tensors where real numbers are needed; save them dequantised")
    if call.path == "torch._utils._rebuild_meta_tensor_no_storage":
        raise Unreadable(f"{name} does not have the bytes that its shape needs ({file.name})")
    match call:
        case Call("torch._utils._rebuild_tensor_v2", (Stored() as stored, skipped, shape, strides, _, _, *more)):
            kind = stored.kind.rpartition(".")[2].removesuffix("Storage")
            own = _STORAGES.get(kind, kind)
        case Call(
            "torch._utils._rebuild_tensor_v3", (Stored() as stored, skipped, shape, strides, _, _, Name(path), *more)
        ):
            own = path.removeprefix("torch.")
        case _:
            raise Unreadable(f"{name} is no tensor as torch.save writes it ({file.name})")
    sizes, steps = _counts(shape), _counts(strides)
    sound = type(skipped) is int and 0 <= skipped < 1 << 60
    if not sound or sizes is None or steps is None or len(sizes) != len(steps):
        raise Unreadable(f"{name} is no tensor as torch.save writes it ({file.name})")
    marked = any(isinstance(one, Mapped) and one.entries for one in more)
    return stored, skipped, sizes, steps, own, marked


def _counts(values: Any) -> tuple[int, ...] | None:
    if isinstance(values, Call) and values.path == "torch.Size" and len(values.arguments) == 1:
        values = values.arguments[0]
    if not isinstance(values, tuple) or len(values) > 64:
        return None
    return values if all(type(value) is int and 0 <= value < 1 << 48 for value in values) else None


def _part(file: File, members: dict[str, tuple[int, int]], folder: str, call: Call, name: str) -> FileArray:
    """Where a tensor's numbers lie in the file."""
    stored, skipped, shape, strides, own, marked = _tensor(file, call, name)
    if own not in TORCH_TYPES:
        raise Unfit(f"of type {own[:40]} where real numbers are needed ({name})")
    by_columns = not _in_order(shape, strides)
    if marked or (by_columns and not _in_order(shape[::-1], strides[::-1])):
        raise Unfit(f"of a tensor that is a view of another order ({name}); save it with .contiguous()")
    dtype = np.dtype(TORCH_TYPES[own])
    kind = Kind("stored", dtype, shape, by_columns=by_columns)
    start, size = members.get(folder + stored.key, (0, -1))
    skipped *= dtype.itemsize
    if skipped + kind.size * dtype.itemsize > size:
        raise Unreadable(f"{name} does not have the bytes that its shape needs ({file.name})")
    return PlainArray(file, kind, dtype, start + skipped)


def _in_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the last axis is innermost, without gaps."""
    step = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != step:
            return 0 in shape
        step *= length
    return True


def _check_apart(parts: dict[tuple[object, ...], FileArray]) -> None:
    """Refuse tied weights: they would count twice, and the result could break the tie."""
    end, before = 0, ""
    for name, part in sorted(parts.items(), key=lambda item: item[1].offset):
        if part.size and part.offset < end:
            raise Unfit(f"a state dict whose {before!r} and {str(name[0])[:80]!r} share memory; save one of the two")
        if part.size:
            end, before = part.end, str(name[0])[:80]
