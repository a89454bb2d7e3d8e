"""Compressed updates: sparse ones, and 8-bit ones with scales. They are expanded range by range."""

from typing import final

import numpy as np

from mixtailor._types import Array, Integers
from mixtailor.storage.converted import Source

__all__ = ["QuantisedSource", "SparseSource"]

_SINGLE = np.dtype(np.float32)


@final
class SparseSource(Source):
    """A row that is zero but for some of its d coordinates: their indices, ascending, and their values in float32."""

    def __init__(self, indices: Integers, values: Array, d: int) -> None:
        self.indices, self.values = indices, values
        self.dtype, self.size = _SINGLE, d

    def run(self, start: int, stop: int) -> Array:
        low, high = np.searchsorted(self.indices, (start, stop))
        out = np.zeros(stop - start, np.float32)
        out[self.indices[low:high] - start] = self.values[low:high]
        return out

    def coordinates(self, which: Integers) -> Array:
        if not len(self.indices):
            return np.zeros(len(which), np.float32)
        places = np.minimum(np.searchsorted(self.indices, which), len(self.indices) - 1)
        return np.where(self.indices[places] == which, self.values[places], np.float32(0.0))


@final
class QuantisedSource(Source):
    """A row of 8-bit integers, times a float32 scale for each group of `group` consecutive coordinates."""

    def __init__(self, codes: Array, scales: Array, group: int) -> None:
        self.codes, self.scales, self.group = codes, scales, group
        self.dtype, self.size = _SINGLE, len(codes)

    def run(self, start: int, stop: int) -> Array:
        first = start // self.group
        spread = np.repeat(self.scales[first : -(-stop // self.group)], self.group)
        with np.errstate(over="ignore"):  # beyond float32 is infinite, and the row is then removed and named
            return np.asarray(self.codes[start:stop] * spread[start - first * self.group :][: stop - start], np.float32)

    def coordinates(self, which: Integers) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(self.codes[which] * self.scales[which // self.group], np.float32)
