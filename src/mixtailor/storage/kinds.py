"""What an array looks like: its type, its shape, and the library that it came from."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from mixtailor._types import Array
from mixtailor.kernels.space import BFLOAT16, from_bfloat16, to_bfloat16

__all__ = ["KERNEL_TYPES", "TORCH_TYPES", "Kind", "Unfit", "recast"]

KERNEL_TYPES = frozenset([np.dtype(np.float32), np.dtype(np.float64)])  # the types that kernels read in place

# The types of torch that are read, by name, and how numpy holds them.
TORCH_TYPES: dict[str, Any] = {
    "float64": "f8", "float32": "f4", "float16": "f2", "bfloat16": BFLOAT16, "bool": "b1",
    "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4",
    "uint64": "u8",
}  # fmt: skip


class Unfit(TypeError):
    """What arrived cannot be an update; the message continues a sentence after "is": "of complex numbers"."""


@final
@dataclass(frozen=True)
class Kind:
    """What one worker's array looks like: its library, type and shape."""

    library: str  # "numpy", "torch", "stored" or "other"
    dtype: "np.dtype[Any]"  # of the coordinates in memory
    shape: tuple[int, ...]
    own: Any = None  # the library's own type, in which the result is returned
    device: Any = field(default=None, compare=False)  # of a tensor
    by_columns: bool = False  # a file holds the first axis innermost: coordinates are counted as they are stored
    namespace: Any = field(default=None, compare=False)  # of another library, in which the result is returned
    labels: Any = None  # along each axis, of libraries in which entries have some

    @cached_property
    def discrete(self) -> bool:
        """Integers or booleans, which take no part in distances."""
        return self.dtype.kind in "iub"

    @cached_property
    def elsewhere(self) -> bool:
        """A tensor that the CPU cannot address."""
        return self.library == "torch" and self.device.type != "cpu"

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def row(self) -> "Kind":
        """One row of a matrix of this kind, in floats: integers are computed and returned in float64."""
        labels = None if self.labels is None else self.labels[1:]
        row = replace(self, shape=self.shape[1:], by_columns=False, labels=labels)
        return row.as_floats() if row.discrete else row

    @property
    def name(self) -> str:
        """The common name of the type."""
        return "bfloat16" if self.dtype == BFLOAT16 else self.dtype.name

    def as_floats(self) -> "Kind":
        """This kind for an update that holds nothing but integers: computed and returned in float64."""
        return replace(self, dtype=np.dtype(np.float64), own=None, by_columns=False)


def recast(run: Array, dtype: "np.dtype[Any]") -> Array:
    """Values in another type; what is beyond its range is infinite there."""
    if run.dtype == dtype:
        return run
    with np.errstate(over="ignore", invalid="ignore"):
        values = from_bfloat16(run["bfloat16"]) if run.dtype == BFLOAT16 else run
        return to_bfloat16(values).view(BFLOAT16) if dtype == BFLOAT16 else values.astype(dtype, copy=False)
