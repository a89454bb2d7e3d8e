"""Arrays of any library as they lie in memory, and answers back in the library, type and shape they came in."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from mixtailor._checks import refuse
from mixtailor.updates.engine import from_bfloat16, to_bfloat16

__all__ = ["Array", "Kind", "Unfit", "discrete_answer", "in_memory", "is_array", "is_torch", "read", "recast"]

Array = np.ndarray[Any, np.dtype[Any]]


class Unfit(TypeError):
    """What came in cannot be an update; the message goes on from "is": "of complex numbers"."""


def is_torch(item: Any) -> bool:
    """Whether this is a torch tensor, found out without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(item, torch.Tensor)


def is_array(item: Any) -> bool:
    """Whether this speaks an array protocol."""
    if isinstance(item, (np.ndarray, np.generic)) or is_torch(item):
        return True
    if isinstance(item, type):
        return False
    return hasattr(item, "shape") and (hasattr(item, "__array__") or hasattr(item, "__dlpack__"))


@dataclass(frozen=True)
class Kind:
    """What one worker's array looks like: its library, type and shape.

    Attributes
    ----------
    library : {"numpy", "torch", "stored", "other"}
    dtype : numpy dtype
        The type of the coordinates in memory; uint16 where they are the bits of bfloat16.
    shape : tuple
        The shape of one worker's array.
    bits : bool
        Whether the coordinates are bfloat16, which numpy has no name for.
    own : object
        The library's own type, to give the answer back in.
    device : object
        Where a tensor lives.
    by_columns : bool
        Whether a file holds the first axis innermost; coordinates are counted in the order in which they are stored.
    namespace : object
        The array namespace of another library, to give the answer back.
    """

    library: str
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    bits: bool = False
    own: Any = None
    device: Any = field(default=None, compare=False)
    by_columns: bool = False
    namespace: Any = field(default=None, compare=False)

    @property
    def discrete(self) -> bool:
        """Whole numbers or truth values, which take no part in distances."""
        return self.dtype.kind in "iub" and not self.bits

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def row(self) -> "Kind":
        """One row of a matrix of this kind, in floats: whole numbers are computed and answered in float64."""
        shape = self.shape[1:]
        row = Kind(self.library, self.dtype, shape, self.bits, self.own, self.device, False, self.namespace)
        return row.as_floats() if row.discrete else row

    @property
    def name(self) -> str:
        """The type as people call it."""
        return "bfloat16" if self.bits else self.dtype.name

    def flatten(self, item: Any) -> Array:
        """An array from outside (a reference) as a flat float vector."""
        try:
            own, raw = read(item if is_array(item) else np.asarray(item, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise TypeError(f"The reference needs to be an update of real numbers and is {error}") from None
        if own.size != self.size:
            refuse(f"The reference needs the shape of one update, {self.shape}, and got {own.shape}.")
        array = in_memory(raw)
        values = recast(array.T.reshape(-1) if self.by_columns else array.reshape(-1), own.bits, np.dtype(np.float64))
        if not np.isfinite(values).all():
            refuse("The reference needs finite entries only and holds NaN or infinity.")
        return np.ascontiguousarray(values)

    def back(self, flat: Array) -> Any:
        """A flat answer in the library, type and shape of one worker's array."""
        if self.library == "torch":
            import torch

            if self.bits:
                return torch.from_numpy(flat.view(np.int16)).view(torch.bfloat16).reshape(self.shape)
            return torch.from_numpy(flat).reshape(self.shape)
        if self.library == "stored":
            # numpy has no bfloat16: its values are float32 numbers, and no digit is lost in them.
            return (from_bfloat16(flat) if self.bits else flat).reshape(
                self.shape, order="F" if self.by_columns else "C"
            )
        if self.library == "other":
            return self._elsewhere(flat)
        if self.own is not None:
            flat = flat.view(self.own) if self.bits else flat.astype(self.own)
        return flat.reshape(self.shape)

    def _elsewhere(self, flat: Array) -> Any:
        values = (from_bfloat16(flat) if self.bits else flat).reshape(self.shape)
        options = {"dtype": self.namespace.bfloat16} if self.bits else {}
        if self.device is not None:
            try:
                return self.namespace.asarray(values, device=self.device, **options)
            except (TypeError, ValueError):  # a library that keeps no devices, or names them its own way
                pass
        return self.namespace.asarray(values, **options)

    def as_floats(self) -> "Kind":
        """This kind for an update that is nothing but whole numbers: computed and answered in float64."""
        return Kind(self.library, np.dtype(np.float64), self.shape, False, None, self.device, False, self.namespace)


def read(item: Any) -> tuple[Kind, Any]:
    """The kind of one array, and the array itself: a tensor as it is, everything else as numpy sees it, in place."""
    if is_torch(item):
        return _torch_kind(item.dtype, tuple(item.shape), item.device, item.layout), item.detach()
    if isinstance(item, np.ma.MaskedArray):
        raise Unfit("a masked array, whose gaps only its owner can fill")
    if isinstance(item, (np.ndarray, np.generic)):
        array = np.asarray(item)
        return _numpy_kind(array.dtype, array.shape), array
    array = _foreign(item)
    if is_torch(array):
        return read(array)
    kind = _numpy_kind(array.dtype, array.shape)
    if not hasattr(item, "__array_namespace__"):
        return kind, array
    device = getattr(item, "device", None)
    return Kind("other", kind.dtype, kind.shape, kind.bits, kind.own, device, False, item.__array_namespace__()), array


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
        return np.asarray(raw.view(torch.int16).numpy()).view(np.uint16)
    return np.asarray(raw.numpy())


def recast(run: Array, bits: bool, dtype: "np.dtype[Any]", to_bits: bool = False) -> Array:
    """Values in another type; what is beyond its range is infinite there."""
    if run.dtype == dtype and bits == to_bits:
        return run
    with np.errstate(over="ignore", invalid="ignore"):
        values = from_bfloat16(run) if bits else run
        return to_bfloat16(values) if to_bits else values.astype(dtype)


@cache
def _torch_types() -> dict[Any, "np.dtype[Any]"]:
    import torch

    names = [
        "float64",
        "float32",
        "float16",
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint16",
        "uint32",
        "uint64",
    ]
    known = {getattr(torch, name): np.dtype(name) for name in names if hasattr(torch, name)}
    return {**known, torch.bfloat16: np.dtype(np.uint16)}


@lru_cache(maxsize=4096)  # one Kind a shape: a thousand layers of fifty workers compare by identity
def _torch_kind(dtype: Any, shape: tuple[int, ...], device: Any, layout: Any) -> Kind:
    import torch

    if layout != torch.strided or device.type == "meta":
        raise Unfit("a tensor without its entries in memory; dense tensors are needed")
    if dtype not in _torch_types():
        kind = "complex numbers" if dtype.is_complex else str(dtype).removeprefix("torch.")
        raise Unfit(f"of {kind} where real numbers are needed")
    return Kind("torch", _torch_types()[dtype], shape, dtype == torch.bfloat16, dtype, device)


@lru_cache(maxsize=4096)
def _numpy_kind(dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> Kind:
    if dtype.name == "bfloat16":
        return Kind("numpy", np.dtype(np.uint16), shape, True, dtype)
    if dtype.kind in "fiub":
        native = np.dtype(np.float64) if dtype.kind == "f" and dtype.itemsize > 8 else dtype.newbyteorder("=")
        return Kind("numpy", native, shape, own=None if native == dtype and dtype.isnative else dtype)
    names = {"c": "complex numbers", "O": "Python objects", "U": "text", "S": "bytes", "M": "dates", "m": "time spans"}
    raise Unfit(f"of {names.get(dtype.kind, dtype.name)} where real numbers are needed")


def discrete_answer(kind: Kind, rows: Sequence[Array]) -> Array:
    """Counters and flags of the rows left: the lower median, and for truth values the majority."""
    answer = np.empty(kind.size, kind.dtype)
    step = max(1, (1 << 20) // len(rows))
    for start in range(0, kind.size, step):
        column = np.stack([recast(row[start : start + step], False, kind.dtype) for row in rows])
        answer[start : start + step] = np.sort(column, axis=0)[(len(rows) - 1) // 2]
    return answer
