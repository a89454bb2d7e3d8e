"""Arrays of any library: read where they are in memory, and results in the library, type and shape they came in."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Array
from mixtailor.kernels.space import BFLOAT16
from mixtailor.storage.kinds import TORCH_TYPES, Kind, Unfit, recast

__all__ = ["discrete_result", "flattened", "in_memory", "is_array", "is_torch", "read", "restored"]


def is_torch(item: Any) -> bool:
    """Whether this is a torch tensor, determined without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(item, torch.Tensor)


def is_array(item: Any) -> bool:
    """Whether this implements an array protocol."""
    if isinstance(item, (np.ndarray, np.generic)) or is_torch(item):
        return True
    if isinstance(item, type):
        return False
    return hasattr(item, "shape") and (hasattr(item, "__array__") or hasattr(item, "__dlpack__"))


def flattened(kind: Kind, item: Any) -> Array:
    """An array from outside (a reference) as a flat float vector, where it has the size of this kind."""
    try:
        own, raw = read(item if is_array(item) else np.asarray(item, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise TypeError(f"The reference needs to be an update of real numbers and is {error}") from None
    if own.size != kind.size:
        refuse(f"The reference needs the shape of one update, {kind.shape}, and got {own.shape}.")
    array = in_memory(raw)
    values = recast(array.T.reshape(-1) if kind.by_columns else array.reshape(-1), np.dtype(np.float64))
    if None not in (own.labels, kind.labels) and own.labels != kind.labels:
        refuse("The reference needs the labels of one update, in the same order, and has others.")
    if not np.isfinite(values).all():
        refuse("The reference needs finite entries only and holds NaN or infinity.")
    if not np.isfinite(_numbers(kind, recast(values, kind.dtype))).all():
        refuse(
            f"The reference needs entries that {kind.name}, the type of the updates and of the result, can hold, and "
            "has larger ones. Give updates of a wider type."
        )
    return np.ascontiguousarray(values)


def restored(kind: Kind, flat: Any) -> Any:
    """A flat result in the library, type and shape of one worker's array."""
    if not isinstance(flat, np.ndarray):  # a tensor, where it was computed
        return flat.reshape(kind.shape)
    if kind.library == "torch":
        import torch

        if kind.dtype == BFLOAT16:
            return torch.from_numpy(flat.view(np.int16)).view(torch.bfloat16).reshape(kind.shape)
        return torch.from_numpy(flat).reshape(kind.shape).to(kind.device)
    if kind.library == "stored":
        return _numbers(kind, flat).reshape(kind.shape, order="F" if kind.by_columns else "C")
    if kind.library == "other":
        return _elsewhere(kind, flat)
    if kind.own is not None:
        flat = flat.view(kind.own) if kind.dtype == BFLOAT16 else flat.astype(kind.own)
    return flat.reshape(kind.shape)


def _numbers(kind: Kind, flat: Array) -> Array:
    """Coordinates of this kind as numbers that numpy knows: of bfloat16, no digit is lost in float32."""
    return recast(flat, np.dtype(np.float32)) if kind.dtype == BFLOAT16 else flat


def _elsewhere(kind: Kind, flat: Array) -> Any:
    values = _numbers(kind, flat).reshape(kind.shape)
    options = {"dtype": kind.namespace.bfloat16} if kind.dtype == BFLOAT16 else {}
    if kind.device is not None:
        try:
            return kind.namespace.asarray(values, device=kind.device, **options)
        except (TypeError, ValueError):  # a library without devices, or with its own names for them
            pass
    return kind.namespace.asarray(values, **options)


def read(item: Any) -> tuple[Kind, Any]:
    """The kind of one array, and the array itself: a tensor as it is, everything else as numpy sees it, in place."""
    if type(item) is np.ndarray:
        return _numpy_kind(item.dtype, item.shape), _as_bits(item)
    if is_torch(item):
        return _torch_kind(item.dtype, tuple(item.shape), item.device, item.layout), item.detach()
    if isinstance(item, np.ma.MaskedArray):
        raise Unfit("a masked array; fill its gaps first")
    if isinstance(item, (np.ndarray, np.generic)):
        array = np.asarray(item)
        return _numpy_kind(array.dtype, array.shape), _as_bits(array)
    array = _foreign(item)
    if is_torch(array):
        return read(array)
    kind, array = replace(_numpy_kind(array.dtype, array.shape), labels=_labels(item)), _as_bits(array)
    if not hasattr(item, "__array_namespace__"):
        return kind, array
    device, namespace = getattr(item, "device", None), item.__array_namespace__()
    return replace(kind, library="other", device=device, namespace=namespace, labels=None), array


def _labels(item: Any) -> Any:
    """The labels along each axis of a series or frame of pandas, which belong to its entries; None for arrays."""
    if type(item).__module__.partition(".")[0] != "pandas":
        return None
    return tuple(tuple(axis.tolist()) for axis in item.axes)


def _is_bfloat16(dtype: "np.dtype[Any]") -> bool:
    """Whether this is the bfloat16 that other libraries (ml_dtypes, and with it jax) add to numpy's types."""
    return dtype.isbuiltin == 2 and dtype.name == "bfloat16"  # 2: added to numpy; to make a name takes long


def _as_bits(array: Array) -> Array:
    """Another library's bfloat16 as its bits, in place; numpy would convert it as if it were integers."""
    return array.view(BFLOAT16) if _is_bfloat16(array.dtype) else array


def _foreign(item: Any) -> Any:
    """Another library's array, in place where both sides can."""
    if not hasattr(item, "__array__"):
        try:
            return np.from_dlpack(item)
        except (TypeError, ValueError, RuntimeError, BufferError):
            if "torch" not in sys.modules:
                raise
            return sys.modules["torch"].from_dlpack(item)  # types and devices that numpy does not know
    return np.asarray(item)


def in_memory(raw: Any) -> Array:
    """A tensor as a numpy array, in place where the CPU can address it; bfloat16 as its bits."""
    if not is_torch(raw):
        return np.asarray(raw)
    torch = sys.modules["torch"]
    if raw.device.type != "cpu":
        raw = raw.cpu()
    if raw.is_neg():
        raw = raw.resolve_neg()
    if raw.dtype == torch.bfloat16:
        return np.asarray(raw.view(torch.int16).numpy()).view(BFLOAT16)
    return np.asarray(raw.numpy())


@cache
def _torch_types() -> dict[Any, "np.dtype[Any]"]:
    import torch

    return {getattr(torch, name): np.dtype(code) for name, code in TORCH_TYPES.items() if hasattr(torch, name)}


@lru_cache(maxsize=4096)  # one Kind a shape: a thousand layers of fifty workers compare by identity
def _torch_kind(dtype: Any, shape: tuple[int, ...], device: Any, layout: Any) -> Kind:
    import torch

    if layout != torch.strided or device.type == "meta":
        raise Unfit("a tensor without its entries in memory; dense tensors are needed")
    if dtype not in _torch_types():
        if dtype.is_floating_point:
            name = str(dtype).removeprefix("torch.")
            raise Unfit(f"of {name}, which is not supported; convert it to float32 or bfloat16")
        kind = "complex numbers" if dtype.is_complex else str(dtype).removeprefix("torch.")
        raise Unfit(f"of {kind} where real numbers are needed")
    return Kind("torch", _torch_types()[dtype], shape, dtype, device)


@lru_cache(maxsize=4096)
def _numpy_kind(dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> Kind:
    if _is_bfloat16(dtype):
        return Kind("numpy", BFLOAT16, shape, dtype)
    if dtype.type.__module__ != "numpy":  # float8 and its like: kernels and numpy itself know nothing of them
        raise Unfit(f"of {dtype.name}, which is not supported; convert it to float32 or bfloat16")
    if dtype.kind in "fiub":
        native = np.dtype(np.float64) if dtype.kind == "f" and dtype.itemsize > 8 else dtype.newbyteorder("=")
        return Kind("numpy", native, shape, own=None if native == dtype and dtype.isnative else dtype)
    names = {"c": "complex numbers", "O": "Python objects", "U": "text", "S": "bytes", "M": "dates", "m": "time spans"}
    raise Unfit(f"of {names.get(dtype.kind, dtype.name)} where real numbers are needed")


def discrete_result(kind: Kind, rows: Sequence[Array]) -> Array:
    """Counters and flags of the remaining updates: the lower median, and for booleans the majority."""
    result = np.empty(kind.size, kind.dtype)
    step = max(1, (1 << 20) // len(rows))
    for start in range(0, kind.size, step):
        column = np.stack([recast(row[start : start + step], kind.dtype) for row in rows])
        result[start : start + step] = np.sort(column, axis=0)[(len(rows) - 1) // 2]
    return result
