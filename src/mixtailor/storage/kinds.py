"""What an array looks like: its type, its shape, and the library that it came from."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from mixtailor._types import Array
from mixtailor.kernels.space import from_bfloat16, to_bfloat16

__all__ = ["KERNEL_TYPES", "TORCH_TYPES", "Kind", "Unfit", "recast"]

KERNEL_TYPES = frozenset([np.dtype(np.float32), np.dtype(np.float64)])  # the types that kernels read in place

# The types of torch that are read, by name, and how numpy holds them; bfloat16 as its bits.
TORCH_TYPES = {
    "float64": "f8", "float32": "f4", "float16": "f2", "bfloat16": "u2", "bool": "b1",
    "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4",
    "uint64": "u8",
}  # fmt: skip


class Unfit(TypeError):
    """What arrived cannot be an update; the message continues a sentence after "is": "of complex numbers"."""


@final
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
        The library's own type, in which the result is returned.
    device : object
        The device of a tensor.
    by_columns : bool
        Whether a file holds the first axis innermost; coordinates are counted in the order in which they are stored.
    namespace : object
        The array namespace of another library, in which the result is returned.
    labels : tuple
        The labels along each axis, of libraries in which entries have some; None for arrays.
    """

    library: str
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    bits: bool = False
    own: Any = None
    device: Any = field(default=None, compare=False)
    by_columns: bool = False
    namespace: Any = field(default=None, compare=False)
    labels: Any = None

    @cached_property
    def discrete(self) -> bool:
        """Integers or booleans, which take no part in distances."""
        return self.dtype.kind in "iub" and not self.bits

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
        return "bfloat16" if self.bits else self.dtype.name

    def as_floats(self) -> "Kind":
        """This kind for an update that holds nothing but integers: computed and returned in float64."""
        return replace(self, dtype=np.dtype(np.float64), bits=False, own=None, by_columns=False)


def recast(run: Array, bits: bool, dtype: "np.dtype[Any]", to_bits: bool = False) -> Array:
    """Values in another type; what is beyond its range is infinite there."""
    if run.dtype == dtype and bits == to_bits:
        return run
    with np.errstate(over="ignore", invalid="ignore"):
        values = from_bfloat16(run) if bits else run
        return to_bfloat16(values) if to_bits else values.astype(dtype)
