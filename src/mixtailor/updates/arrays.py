"""Arrays of any library as numpy arrays in place, and answers back in the library, type and shape they came in."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixtailor._checks import refuse

__all__ = ["Kind", "is_array", "is_torch", "on_device"]


def is_torch(item: Any) -> bool:
    """Whether this is a torch tensor, found out without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(item, torch.Tensor)


def is_array(item: Any) -> bool:
    """Whether this speaks an array protocol."""
    if isinstance(item, (np.ndarray, np.generic)) or is_torch(item):
        return True
    return hasattr(item, "shape") and (hasattr(item, "__array__") or hasattr(item, "__dlpack__"))


def on_device(item: Any) -> bool:
    """Whether this is a tensor that the CPU cannot address."""
    return is_torch(item) and item.device.type != "cpu"


@dataclass(frozen=True)
class Kind:
    """What one worker's array looks like: its library, type and shape.

    Attributes
    ----------
    library : {"numpy", "torch", "other"}
    dtype : numpy dtype
        The type of the coordinates in memory; uint16 holds the bits of bfloat16.
    shape : tuple
        The shape of one worker's array.
    discrete : bool
        Whole numbers or truth values.
    namespace : object
        The array namespace of another library, to give the answer back.
    """

    library: str
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    discrete: bool
    namespace: Any = None

    @classmethod
    def of(cls, matrix: Any) -> "Kind":
        """The kind of the rows of an (n, ...) array."""
        return cls.of_array(matrix[0])

    @classmethod
    def of_array(cls, item: Any) -> "Kind":
        """The kind of one array; what cannot be an update is refused with a sentence."""
        if is_torch(item):
            return cls("torch", _torch_dtype(item), tuple(item.shape), not item.is_floating_point())
        if isinstance(item, (np.ndarray, np.generic)):
            dtype, discrete = _numpy_dtype(np.asarray(item).dtype)
            return cls("numpy", dtype, np.shape(item), discrete)
        try:
            array = np.asarray(item)
        except (TypeError, ValueError) as error:
            raise TypeError(f"An update needs arrays of numbers and got {type(item).__name__}: {error}") from None
        dtype, discrete = _numpy_dtype(array.dtype)
        namespace = item.__array_namespace__() if hasattr(item, "__array_namespace__") else None
        return cls("numpy" if namespace is None else "other", dtype, array.shape, discrete, namespace)

    def view(self, item: Any) -> "np.ndarray[Any, Any]":
        """The array in memory as numpy sees it: in place where it can be."""
        if is_torch(item):
            item = item.detach()
            if item.layout != sys.modules["torch"].strided:
                item = item.to_dense()
            if item.dtype == sys.modules["torch"].bfloat16:
                array = item.resolve_neg().view(sys.modules["torch"].int16).numpy().view(np.uint16)
            else:
                array = item.resolve_neg().numpy()
        else:
            array = np.asarray(item)
            if array.dtype.name == "bfloat16":
                array = array.view(np.uint16)
        return array

    def converted(self, item: Any) -> "np.ndarray[Any, Any]":
        """The array in this kind's type, flat; another type's values are converted, and overflow is infinite."""
        array = self.view(item).reshape(-1)
        own = Kind.of_array(item)
        if own.dtype == self.dtype and own.discrete == self.discrete and array.dtype == self.dtype:
            return array
        from mixtailor.updates.engine import from_bfloat16, to_bfloat16

        values = from_bfloat16(array) if own.dtype == np.uint16 and not own.discrete else array
        with np.errstate(over="ignore", invalid="ignore"):
            return to_bfloat16(values) if self.bfloat16 else values.astype(self.dtype)

    @property
    def bfloat16(self) -> bool:
        return self.dtype == np.uint16 and not self.discrete

    def flat_rows(self, matrix: Any) -> "list[np.ndarray[Any, Any]]":
        """The rows of an (n, ...) array, flat, in place where they can be."""
        array = self.view(matrix)
        flat = array.reshape(len(array), -1)
        if self.discrete:
            flat = flat.astype(np.float64)
        elif flat.dtype != self.dtype:
            flat = flat.astype(self.dtype)
        return list(flat)

    def flatten(self, item: Any) -> "np.ndarray[Any, Any]":
        """An array from outside (a reference) as a flat float vector."""
        if not is_array(item):
            item = np.asarray(item, dtype=np.float64)
        own = Kind.of_array(item)
        if int(np.prod(own.shape)) != int(np.prod(self.shape)):
            refuse(f"The reference needs the shape of one update, {self.shape}, and got {own.shape}.")
        values = own.view(item).reshape(-1)
        if own.bfloat16:
            from mixtailor.updates.engine import from_bfloat16

            values = from_bfloat16(values)
        values = values.astype(np.float64) if values.dtype not in (np.float32, np.float64) else values
        if not np.isfinite(values).all():
            refuse("The reference needs finite entries only and holds NaN or infinity.")
        return np.ascontiguousarray(values)

    def back(self, flat: "np.ndarray[Any, Any]") -> Any:
        """A flat answer in the library and shape of one worker's array."""
        if self.library == "torch":
            import torch

            if self.bfloat16:
                return torch.from_numpy(flat.view(np.int16)).view(torch.bfloat16).reshape(self.shape)
            return torch.from_numpy(flat).reshape(self.shape)
        if self.library == "other":
            if self.bfloat16:
                from mixtailor.updates.engine import from_bfloat16

                return self.namespace.asarray(from_bfloat16(flat).reshape(self.shape), dtype=self.namespace.bfloat16)
            return self.namespace.asarray(flat.reshape(self.shape))
        return flat.reshape(self.shape)


def _torch_dtype(item: Any) -> "np.dtype[Any]":
    import torch

    known = {
        torch.float64: np.float64,
        torch.float32: np.float32,
        torch.float16: np.float16,
        torch.bfloat16: np.uint16,
        torch.bool: np.bool_,
        torch.uint8: np.uint8,
        torch.int8: np.int8,
        torch.int16: np.int16,
        torch.int32: np.int32,
        torch.int64: np.int64,
    }
    if item.dtype not in known:
        raise TypeError(f"An update needs real numbers and got a tensor of {item.dtype}.")
    return np.dtype(known[item.dtype])


def _numpy_dtype(dtype: "np.dtype[Any]") -> "tuple[np.dtype[Any], bool]":
    """The type to compute in, and whether the values are discrete."""
    if dtype.name == "bfloat16":
        return np.dtype(np.uint16), False
    if dtype.kind == "f":
        return (np.dtype(np.float64) if dtype.itemsize > 8 else dtype.newbyteorder("=")), False
    if dtype.kind in "iub":
        return dtype.newbyteorder("="), True
    names = {"c": "complex numbers", "O": "Python objects", "U": "text", "S": "bytes", "M": "dates", "m": "time spans"}
    raise TypeError(f"An update needs real numbers and got an array of {names.get(dtype.kind, dtype.name)}.")


def discrete_answer(kind: Kind, rows: "Sequence[np.ndarray[Any, Any]]") -> "np.ndarray[Any, Any]":
    """Counters and flags of the rows left: the lower median, and for truth values the majority."""
    answer = np.empty_like(rows[0])
    step = max(1, (1 << 20) // len(rows))
    for start in range(0, len(answer), step):
        column = np.sort(np.stack([row[start : start + step] for row in rows]), axis=0)
        answer[start : start + step] = column[(len(rows) - 1) // 2]
    return answer
